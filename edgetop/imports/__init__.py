"""Sessions made of what other tools measured, so that they are reported and replayed like edgetop's own."""
