"""Programs of their own, run by path in an interpreter that need not have edgetop."""
