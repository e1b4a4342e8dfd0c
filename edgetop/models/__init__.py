"""The contents of model files: operators, shapes, sizes, and the work that follows from them.

Files are read without any inference runtime and without loading weights. Nothing here runs a
model or measures anything; what does not follow from the file is None, never a guess.
"""
