"""The words for what the analysis found: the codes, numbers and spans of `edgetop.analysis` as sentences.

The screen, the text report, the JSON document, alerts, JUnit and the list of sessions all take their words from here,
so that they say the same. `edgetop.formatting` has units and rounding.
"""
