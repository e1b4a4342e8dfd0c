"""An error in any part of the analysis costs what is made of that part, and nothing else."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from edgetop.analysis import faults
from edgetop.analysis.analysis import PARTS, Analysis
from edgetop.analysis.faults import FEEDING, Fault, Faults, UnavailableError, aside, guarded, noting
from edgetop.analysis.folds import FOLDS, OF_STREAMS, READ_TRACKS
from edgetop.analysis.session_gates import METRICS, parse_gate
from edgetop.analysis.session_report import judged_gates, report
from edgetop.cli.printing.report_text import brief_summary, summary
from edgetop.metrics.metric_families import families
from edgetop.session.batch import Batch
from edgetop.wording.report_document import report_document
from tests.support.scripts import POWER_SENSORS, SENSORS, Script, manifest, paced, powered
from tests.support.sessions import differences
from tests.support.thorough import mostly_thorough

# The parts of a report that are made of each fold, and cannot be without it.
PRINCIPAL: dict[str, set[str]] = {
    "latency": {"burst", "latency", "sustained", "tail"},
    "progress": {"overhead", "phases", "usage"},
    "tracks": {"power", "temperature"},
    "own_load": {"overhead"},
    "operators": {"operators", "profile"},
    "power": {"energy", "power"},
    "usage": {"usage"},
    "frames": {"frames"},
    "events": set(),
    "slowdowns": {"burst", "slowdowns", "sustained", "tail", "throttled"},
    "throttles": {"throttled", "throttled_share", "throttles"},
    "forecast": {"forecast"},
    "alerts": set(),
    "backlog": set(),
    "memory_stages": {"memory"},
    "growth": {"memory"},
    "precision": {"latency"},
    "competitors": set(),
    "burst_hints": set(),
    "recording": set(),
    "ab": {"ab"},
    "mix": set(),
    "shapes": set(),
    "generation": set(),  # this is no session of a language model
    "positions": set(),  # the same
    "prefill": set(),  # the same
    "decode": set(),  # the same
    "event_counts": {"counters"},
    "phase_counts": {"operators"},
    "token_energy": set(),  # the same
    "phase_power": {"operators", "profile"},
    "responses": set(),  # this session has no deadline
}
# Without those that are only asked, or not fed here.
OF_TOKENS = ("positions", "prefill", "decode", "token_energy")
FED = [name for name in FOLDS if name not in ("burst_hints", "responses", *OF_TOKENS)]
QUICK = ("latency", "slowdowns", "power", "tracks")
SAYS_ITSELF = {"verdict", "alerts", "gates", "warnings", "unavailable"}


@pytest.fixture(autouse=True)
def _expected() -> Iterator[None]:
    yield
    faults.occurred.clear()


def script() -> Script:
    whole = manifest(sensors=(*SENSORS, *POWER_SENSORS))
    return Script(whole, powered).load().warm_up().begin().measure(8).profile().measure(4)


class BrokenError(Exception):
    pass


def broken(kind: type, *, feeding: bool) -> type:
    """The fold, which raises an error from its third batch on, when it is fed or only when it is asked."""

    def wrapped(name: str) -> Any:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            if name in FEEDING:
                self.fed = getattr(self, "fed", 0) + 1
            if getattr(self, "fed", 0) > 2 and (name in FEEDING) == feeding:
                raise BrokenError("on purpose")
            return getattr(kind, name)(self, *arguments, **named)

        return call

    own = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]
    return type(kind.__name__, (kind,), {name: wrapped(name) for name in own if name != "fold_part"})


class Delegating(FOLDS["usage"]):  # type: ignore[misc]
    """The fold with functions of its own, which can be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self._began, self._fold = vars(self).pop("began"), vars(self).pop("fold")

    def began(self, t_ns: int) -> None:
        self._began(t_ns)

    def fold(self, batch: Batch) -> None:
        self._fold(batch)


def break_fold(monkeypatch: pytest.MonkeyPatch, name: str, *, feeding: bool) -> None:
    monkeypatch.setitem(FOLDS, name, broken(Delegating if name == "usage" else FOLDS[name], feeding=feeding))


def folded(batches: list[Batch]) -> Analysis:
    analysis = Analysis()
    for batch in batches:
        analysis.fold(batch)
        analysis.view(None).freeze()  # as a screen does
    return analysis


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return list(script().batches)


@pytest.fixture(scope="module")
def sound(batches: list[Batch]) -> dict[str, Any]:
    return report_document(folded(batches))


def test_every_fold_is_behind_a_guard(batches: list[Batch]) -> None:
    assert set(PRINCIPAL) == set(FOLDS)
    analysis = Analysis()
    stream = analysis.streams[0]
    for name in FOLDS:
        assert type(getattr(stream, name) if name in OF_STREAMS else vars(analysis)[name]) is faults.Guard


@pytest.mark.parametrize("feeding", [True, False], ids=["fed", "asked"])
@pytest.mark.parametrize("name", mostly_thorough(FED, *QUICK))
def test_a_fault_costs_what_is_made_of_the_fold(
    name: str, feeding: bool, batches: list[Batch], sound: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_fold(monkeypatch, name, feeding=feeding)
    analysis = folded(batches)
    if not feeding and name not in analysis.faults.found:
        pytest.fail(f"nothing asks {name}") if name in ("latency", "tracks", "slowdowns") else None
        return
    document = report_document(analysis)
    assert json.loads(json.dumps(document)) == document
    missing = set(document.get("unavailable", {}))
    assert missing >= PRINCIPAL[name] & set(document) - {"ab", "frames"}
    for key, value in document.items():
        if key in missing:
            assert value is None
            assert document["unavailable"][key].startswith("not available: internal error in ")
        elif key not in SAYS_ITSELF:
            assert differences(value, sound[key]) == [] or key == "latency", key
    also = {"tracks": READ_TRACKS, "progress": ("own_load",)}.get(name, ())
    assert {name} <= set(analysis.faults.found) <= {name, *also}
    notices = [one["message"] for one in document["warnings"] if one["code"] == "internal-error"]
    assert notices
    assert all("BrokenError: on purpose" in one for one in notices)
    assert "internal-error" in {one["event"] for one in document["alerts"]}
    assert "STEADY" not in document["verdict"]["words"] or name not in ("slowdowns", "throttles", "latency", "progress")


def test_a_fault_in_response_times_costs_the_figures_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    break_fold(monkeypatch, "responses", feeding=True)
    document = report_document(folded(list(paced(20).end().batches)))
    assert set(document["unavailable"]) == {"latency", "streams"}


@pytest.mark.parametrize("name", mostly_thorough(FED, *QUICK))
def test_words_metrics_and_views_stand(name: str, batches: list[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
    break_fold(monkeypatch, name, feeding=True)
    analysis = folded(batches)
    result = report(analysis)
    for text in (summary(result), brief_summary(result)):
        assert not result.unavailable or "not available: internal error in" in " ".join(text.split())
    made = {family.name: family for family in families(analysis)}
    assert {dict(one.labels)["part"] for one in made["edgetop_internal_error"].samples} == {name}
    if name == "latency":
        assert not {"edgetop_inference_duration_seconds", "edgetop_inference_errors"} & set(made)
    view = analysis.view(None)
    for part in PARTS:
        getattr(view, part)


def test_a_gate_on_what_is_not_available_fails_with_the_reason(
    batches: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_fold(monkeypatch, "latency", feeding=True)
    analysis = folded(batches)
    results = judged_gates(analysis, [parse_gate(METRICS[name].example) for name in METRICS])
    by_name = {one.gate.name: one for one in results}
    for name in ("p50", "p99", "max", "errors", "energy", "drift"):
        assert not by_name[name].ok
        assert by_name[name].value is None
        unknown = by_name[name].unknown
        assert isinstance(unknown, Fault)
        assert unknown.where == "latency"
    assert by_name["rss"].value is not None


def test_a_fold_that_failed_is_fed_no_more(batches: list[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
    fed = []

    class Counting(FOLDS["power"]):  # type: ignore[misc]
        def fold(self, batch: Batch) -> None:
            fed.append(batch)
            raise BrokenError("on purpose")

    monkeypatch.setitem(FOLDS, "power", Counting)
    folded(batches)
    assert len(fed) == 1


def test_a_figure_that_fails_costs_itself(batches: list[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
    class Strange(FOLDS["growth"]):  # type: ignore[misc]
        def view(self, *arguments: Any) -> Any:
            return None  # of which memory's figures cannot be made

    monkeypatch.setitem(FOLDS, "growth", Strange)
    document = report_document(folded(batches))
    assert document["unavailable"].keys() >= {"memory"}
    assert document["latency"]["count"] > 0
    assert document["verdict"]["now"] == "INTERNAL ERROR"


def test_a_restart_forgets_and_a_checkpoint_keeps_faults(batches: list[Batch]) -> None:
    analysis = folded(batches[:6])
    analysis.faults.add("usage", BrokenError("on purpose"))
    copied = Analysis()
    copied.save_checkpoint(0, analysis)
    copied.fold(Batch(0, restart=True, resumes_ns=0))
    assert set(copied.faults.found) == {"usage"}
    copied.fold(Batch(0, restart=True))
    assert not copied.faults.found


def test_faults_are_reported_once_when_data_comes(batches: list[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
    break_fold(monkeypatch, "tracks", feeding=True)
    analysis, told, left = Analysis(), [], list(batches)
    analysis.on_fault = told.append

    class Feed:
        def read(self) -> Batch | None:
            return left.pop(0) if left else None

    while left:
        analysis.catch_up(Feed())
    (fault,) = told
    assert (fault.name, fault.where, fault.error) == ("tracks", "tracks", "BrokenError: on purpose")
    assert "on purpose" in fault.traceback
    assert fault.session == analysis.manifest.name  # type: ignore[union-attr]


def test_no_memory_is_no_internal_error() -> None:
    class Hungry:
        def fold(self) -> None:
            raise MemoryError

    with pytest.raises(MemoryError):
        guarded("hungry", Hungry(), Faults()).fold()


def test_what_only_adds_to_a_figure_is_read_aside() -> None:
    class Fold:
        def view(self, *, fails: bool = False) -> int:
            if fails:
                raise ValueError("no view")
            return 1

    found = Faults()
    fold = guarded("fold", Fold(), found)
    with noting() as read:
        assert fold.view() == 1
    assert not read
    with pytest.raises(UnavailableError) as raised:  # A fold that was never fed fails as well.
        fold.view(fails=True)
    assert (raised.value.fault.where, raised.value.fault.error) == ("fold", "ValueError: no view")
    with noting() as read:
        with aside():
            fold.view()
        assert not read
        with pytest.raises(UnavailableError):
            fold.view(fails=True)
    assert read == {"fold"}
