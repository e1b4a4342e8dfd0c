"""What a model costs: arithmetic, bytes and memory, by operator and in total."""
