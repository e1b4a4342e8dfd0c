"""Conducts a session: starts the engine and the sensors, and passes on their data in batches."""
