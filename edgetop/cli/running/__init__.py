"""The commands that run a model and record the session: run, demo, ops."""
