"""Analysis explains a session: pure folds over batches, each of which gives a frozen view.

The same folds judge a live run, a replay and a report, so all three come to the same results. Folds read no clock and
no file, start no threads, and use a fixed amount of memory, however long the session is.
"""
