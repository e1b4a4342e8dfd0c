"""The commands that compare sessions, models and settings: compare, ab, fit, fit-memory, sweep."""
