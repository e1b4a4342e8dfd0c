"""The commands that watch a program or a running session: watch, gap, attach, stop, relay."""
