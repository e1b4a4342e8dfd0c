"""Analysis computes all results of a session from its recorded batches.

It consists of folds. A fold is an object whose method `fold` takes the batches of a session one by one, and whose
method `view` returns the results so far as a frozen object. A live run, a replay and a report use the same folds, so
their results are equal. A fold reads no clock and no file, and starts no thread. Its memory is fixed, however long the
session is.
"""
