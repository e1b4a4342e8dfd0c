"""The command line. Each family of commands has a folder. This package also assembles the sessions that commands run.

Modules here import nothing heavy when they are imported: `--help` loads no Textual, Arrow or runtime.
"""
