"""Writes the models that edgetop ships, byte for byte; the package itself needs only the files."""
