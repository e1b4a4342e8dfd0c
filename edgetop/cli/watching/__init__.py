"""Commands that watch a program or a running session: watch, attach, stop, relay."""
