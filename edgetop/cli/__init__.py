"""The command line. Each family of commands has a folder here. This package also builds sessions from their parts.

Modules here import nothing heavy when they are imported: `--help` loads no Textual, Arrow or runtime.
"""
