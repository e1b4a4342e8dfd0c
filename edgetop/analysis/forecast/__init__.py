"""The heat forecast: the temperature that the board will reach, and whether and when it will throttle at this load."""
