"""Checks whether a board is fit to measure on. The checks change nothing.

A benchmark should run under the settings of production, so no check asks for the fastest settings. Settings are
compared with those that the user declared (`--governor`, `--power-mode`). A setting that was not declared must be one
under which results are repeatable.
"""
