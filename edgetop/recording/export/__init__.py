"""Export of a recording, or of a part of it, to files for other tools. Each format is one function."""
