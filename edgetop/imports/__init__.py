"""Import measurements of other tools as sessions, which can be reported and replayed like edgetop's own."""
