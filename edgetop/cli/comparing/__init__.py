"""Commands that compare sessions, models and settings: compare, ab, gap, fit, fit-memory, sweep."""
