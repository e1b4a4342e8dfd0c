"""The forecast: where the temperature is going, whether the board will throttle at this load, and when."""
