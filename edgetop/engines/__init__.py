"""Engines run the model. An engine reports what it loaded, then sends records of inferences until it ends.

An engine is a child process (the default) or a thread of edgetop. Both run the same loop (`edgetop.engines.child`) with
any of the runtimes in its registry.
"""
