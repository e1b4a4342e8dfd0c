"""Metrics of a running session: for Prometheus by a file or over HTTP, for OpenTelemetry by its SDK.

`families` collects the metrics; the other modules write them, each in its format. Nothing here may delay a run:
threads of their own wait for a disk or the network.
"""
