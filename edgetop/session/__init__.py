"""The data of a session: immutable values, batches with columns of data, and the clock.

The package imports no other part of edgetop.

- A *session* is one run of a model on a board, with all data that was observed.
- An *inference* is one timed call of the model.
- A *reading* is the value of a *sensor* at one time.
- An *event* is something that happened.
- A *batch* has the data of all these kinds for a span of time, on one clock.
- A *feed* delivers batches. A *fold* is a part of the analysis that takes batches one by one.
"""
