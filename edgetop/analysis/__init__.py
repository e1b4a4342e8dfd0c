"""Analysis computes all results of a session from its recorded batches.

It consists of folds. A fold is an object that takes the batches of a session one by one (`fold`), and returns its
results so far as a frozen view (`view`). A live run, a replay and a report use the same folds, so their results are
equal. A fold reads no clock and no file, and starts no thread. Its memory is fixed, however long the session is.
"""
