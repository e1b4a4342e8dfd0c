"""The forecast: where the temperature is going, whether the board will throttle at this load, and when.

`load` selects the readings since the load last changed, `model` fits a thermal model to them, and `forecast` decides
whether the result is sure enough to report. No state depends on the pieces in which a session comes.
"""
