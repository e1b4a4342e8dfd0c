"""Sessions in which it is known when the model was slowed, and why: made from a seed, by numpy alone.

A plan says what happens (`plans`), a load what inferences come of it (`load`), a board what its
sensors tell (`boards`). Nothing here knows how edgetop judges any of it.
"""
