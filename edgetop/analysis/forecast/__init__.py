"""The forecast: where the temperature is going, whether the board will throttle at this load, and when.

The part of the readings since the load last changed is found in
them (`load`), a thermal model is fitted to it (`model`), and what it says is told or held back
(`forecast`). Nothing is kept that depends on the pieces in which a session comes.
"""
