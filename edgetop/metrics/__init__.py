"""Metrics of a running session, for Prometheus (by a file or over HTTP) and for OpenTelemetry (by its SDK).

`metric_families` collects the metrics. Each other module writes them in one format. Metrics must never delay a run, so
separate threads wait for the disk and the network.
"""
