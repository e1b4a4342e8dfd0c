"""What the dashboard and the alert rules ask Prometheus."""

from edgetop.metrics.grafana_dashboard import ALERTS, FLEET, PANELS, RECORDED


def queries() -> list[str]:
    return [
        *(query for _, _, query in FLEET),
        *(query for _, _, _, _, of in PANELS for query, _ in of),
        *(expression for _, expression in RECORDED),
        *(condition for _, condition, _, _, _ in ALERTS),
    ]
