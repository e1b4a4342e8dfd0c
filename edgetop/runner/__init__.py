"""Conducts a session: starts the engine and the sensors, and passes on what they give as batches."""
