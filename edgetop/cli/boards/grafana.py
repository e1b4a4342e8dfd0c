"""`edgetop grafana`: print a dashboard and alert rules for the metrics."""

import click

from edgetop.cli.output import print_json


@click.command("grafana")
@click.option("--alerts", is_flag=True, help="Print Prometheus alert rules as YAML instead.")
def command(*, alerts: bool) -> None:
    """Print a Grafana dashboard for edgetop's metrics as JSON: boards, one board, throttling, energy.

    \b
    Examples:
      edgetop grafana > edgetop.json              import it in Grafana
      edgetop grafana --alerts > edgetop.yml      add it to rule_files of Prometheus
      edgetop help metrics                        the metrics, and how to collect them
    """
    from edgetop.metrics.grafana_dashboard import alert_rules, dashboard  # noqa: PLC0415  --help needs none of it

    if alerts:
        click.echo(alert_rules(), nl=False)
    else:
        print_json(dashboard())
