"""The topic `metrics` names every alert rule, in the order of the rules."""

import re
from importlib import resources

from edgetop.metrics.grafana_dashboard import ALERTS

TOPIC = resources.files("edgetop").joinpath("docs/metrics.md").read_text(encoding="utf-8")


def test_every_alert_is_in_its_table() -> None:
    rows = re.findall(r"^\| `(Edgetop\w+)` \| [^|]+ \| [^|]+ \|$", TOPIC, re.MULTILINE)
    assert rows == [name for name, *_ in ALERTS]
