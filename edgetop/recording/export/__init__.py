"""Export of a recording, or of a part of it, to files that other tools read. Each format is one function."""
