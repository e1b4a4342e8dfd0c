"""Analysis explains a session. It consists of folds: objects that take the batches of a session one by one (`fold`),
and return their results so far as a frozen view (`view`).

The same folds judge a live run, a replay and a report, so all three come to the same results. A fold reads no clock and
no file, starts no thread, and uses a fixed amount of memory, however long the session is.
"""
