"""When the model runs slower than it can, since when, by how much, and why.

`edgetop help slowdowns` tells users what is found and how. All of it is one fold over
seconds, readings and the event that begins the measurement; memory is bounded, and what it
finds depends on what came, never on how it was batched.
"""
