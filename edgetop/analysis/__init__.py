"""Analysis explains a session, by folds.

A fold is an object that takes the batches of a session one by one (`fold`), and returns its results so far as a frozen
view (`view`). The same folds judge a live run, a replay and a report, so all three come to the same results. A fold
reads no clock and no file, starts no thread, and uses a fixed amount of memory, however long the session is.
"""
