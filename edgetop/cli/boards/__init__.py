"""Commands about many boards: fleet, push, pull, lake, grafana."""
