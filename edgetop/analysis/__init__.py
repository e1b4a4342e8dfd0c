"""Analysis explains a session: pure folds over batches, each giving a frozen view.

The same folds judge a live run, a replay and a report, so they come to the same words.
They read no clock, no file and no thread; memory is fixed however long the session is.
"""
