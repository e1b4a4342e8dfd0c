"""The command line: one file a command, and the only place that builds things.

Modules here import nothing heavy at their top: `--help` loads no Textual, Arrow or runtime.
"""
