"""The forecast: the temperature that the board will reach, whether it will throttle at this load, and when."""
