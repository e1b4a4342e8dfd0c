"""Check whether a board is fit to measure on. No check changes anything.

A benchmark should run under the settings of production, so no check asks for the fastest settings. Settings are
compared with the declared ones (`--governor`, `--power-mode`); undeclared settings must be ones under which a result is
repeatable.
"""
