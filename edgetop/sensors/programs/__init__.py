"""Programs that are run by path, in an interpreter that may not have edgetop."""
