"""Shapes of every tensor of an ONNX model, from those of the inputs: a rule for each operator, and no guesses."""
