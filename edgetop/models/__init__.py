"""The contents of model files: operators, shapes, sizes, and the work that follows from them.

Files are read without an inference runtime and without loading weights. No model is run. A value that does not follow
from the file is None and never guessed.
"""
