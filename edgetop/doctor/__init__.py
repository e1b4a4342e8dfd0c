"""Is this board fit to measure on? Each check looks, and changes nothing.

A benchmark should run under the settings of production, so nothing here asks for the fastest ones: settings are judged
against what was declared (`--governor`, `--power-mode`), and else against whether a result would still hold tomorrow.
"""
