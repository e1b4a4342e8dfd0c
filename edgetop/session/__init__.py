"""The data of a session: frozen values, columnar batches and the clock. Imports nothing else of edgetop.

The words used everywhere: a *session* is one run of a model on a board, with everything
that was observed; an *inference* is one timed call; a *reading* is one value of one
*sensor* at one time; an *event* is something that happened; a *batch* is what a feed
delivers, all of it on one clock.
"""
