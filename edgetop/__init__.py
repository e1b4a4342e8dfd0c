"""edgetop: watch a model run on an edge board, for minutes, hours or days."""

__version__ = "0.1.0"
