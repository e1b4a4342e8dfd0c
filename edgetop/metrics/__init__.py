"""What monitoring systems get of a running session: Prometheus by a file or over HTTP, OpenTelemetry by its SDK.

`families` says what there is, once for all of them; the others write it, each in its format. Nothing here may hold
up a run: what can wait for a disk or a network waits on a thread of its own.
"""
