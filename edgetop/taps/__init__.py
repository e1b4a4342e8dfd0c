"""The inferences of other programs: rings in shared memory, and the programs and helpers that write them."""
