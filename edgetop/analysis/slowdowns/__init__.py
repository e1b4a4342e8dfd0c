"""Slowdowns: finds when the model runs slower than it can, since when, by how much, and why.

`edgetop help slowdowns` describes the method for users. The data are the latencies of each second of a session, its
sensor readings, and the event that begins its measurement. Memory use is limited. The results are the same however the
data was divided into batches.
"""
