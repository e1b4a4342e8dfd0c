"""Metrics of a running session: for Prometheus by a file or over HTTP, for OpenTelemetry by its SDK.

`families` says what there is, once for all of them; the others write it, each in its format. Nothing here may hold
up a run: what can wait for a disk or a network waits on a thread of its own.
"""
