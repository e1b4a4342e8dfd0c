"""The cost of a model: arithmetic, bytes and memory, by operator and in total."""
