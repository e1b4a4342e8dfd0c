"""Watching other programs: files in shared memory (rings), and the programs that write the watched calls to them."""
