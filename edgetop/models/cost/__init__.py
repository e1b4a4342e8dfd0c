"""The cost of a model: arithmetic, bytes moved, and memory."""
