"""Shapes of every tensor, from those of the inputs: a rule for each operator, and no guesses."""
