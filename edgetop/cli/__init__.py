"""The command line, which also builds sessions from their parts. Each family of commands has a folder.

Modules here import nothing heavy when they are imported: `--help` loads no Textual, Arrow or runtime.
"""
