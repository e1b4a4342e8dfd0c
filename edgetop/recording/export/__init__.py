"""Export a recording, or a part of it, into files that other tools read. Each format is one function."""
