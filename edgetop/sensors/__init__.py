"""Read the sensors of a board: temperatures, clocks, power, load, memory and the like.

Each module is about one quantity or chip; its function `discover` searches the board's files for sensors. A value that
cannot be read becomes a `Gap`, which says why. All files are read through a `Root`, which is this machine's `/` or the
folder of a captured board. Only data about the processes of the engine and of edgetop comes from the real /proc.
"""
