"""The contents of model files: operators, shapes, sizes, and the work that follows from them.

Files are read without an inference runtime and without loading weights. This package does not run a model or measure
anything. Values that do not follow from the file are None and never guessed.
"""
