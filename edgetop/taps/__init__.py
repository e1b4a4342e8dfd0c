"""The inferences of other programs, as they make them: rings in shared memory, and who fills them."""
