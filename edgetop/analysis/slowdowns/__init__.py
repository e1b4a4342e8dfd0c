"""Slowdowns: when the model runs slower than it can, since when, by how much, and why.

`edgetop help slowdowns` describes the method for users. The package judges seconds, readings and the event that begins
the measurement. Its memory is bounded, and its results do not depend on how the data was batched.
"""
