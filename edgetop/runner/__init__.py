"""Conducts a session: starts the engine and the sensors, and hands on what they give as batches."""
