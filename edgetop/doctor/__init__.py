"""Check whether a board is fit to measure on. The checks change nothing.

A benchmark should run under the settings of production, so no check asks for the fastest settings. Settings are
compared with the declared ones (`--governor`, `--power-mode`). If a setting is not declared, it must be one under which
results are repeatable.
"""
