"""`edgetop grafana`: what shows and watches the metrics of `--metrics`, `--prom-textfile` and `--otlp`."""

import json

import click


@click.command("grafana")
@click.option("--alerts", is_flag=True, help="Prometheus alert rules instead, as YAML.")
def command(*, alerts: bool) -> None:
    """Print a Grafana dashboard for edgetop's metrics as JSON: boards, one board, throttling, energy.

    \b
    Examples:
      edgetop grafana > edgetop.json              import it in Grafana
      edgetop grafana --alerts > edgetop.yml      name it under rule_files of Prometheus
      edgetop help metrics                        the metrics, and how they get there
    """
    from edgetop.metrics.grafana import alert_rules, dashboard  # noqa: PLC0415  --help needs none of it

    click.echo(alert_rules() if alerts else json.dumps(dashboard(), indent=1), nl=not alerts)
