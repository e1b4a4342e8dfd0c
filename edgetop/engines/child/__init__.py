"""The engine child: a self-contained program that runs one model and reports each inference.

It may run in another interpreter than edgetop itself (`--engine-python`). So it needs only the standard library, numpy
and one runtime, on Python 3.8 or later. It must never import other parts of edgetop. It must never print: file
descriptors 1 and 2 belong to the runtime, whose output edgetop collects as log lines.
"""
