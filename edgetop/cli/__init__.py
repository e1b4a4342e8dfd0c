"""The command line, and the only place that builds things. Each family of commands has a folder.

Modules here import nothing heavy at their top: `--help` loads no Textual, Arrow or runtime.
"""
