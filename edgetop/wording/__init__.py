"""The words for what the analysis found: codes, numbers and times of `edgetop.analysis` as sentences.

The screen, the text report, the JSON document, alerts, JUnit and the list of sessions all take their words from this
package, so they all say the same. `edgetop.formatting` has units and rounding.
"""
