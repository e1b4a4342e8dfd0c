"""Watching other programs: rings in shared memory, and the programs and helpers that write calls into them."""
