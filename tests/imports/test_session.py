"""What was imported is a session like any other, and knows no more than the tool told."""

import json
from datetime import datetime, timezone

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.cli.printing.report_text import summary
from edgetop.errors import InputError, RecordingError
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.imports.imported_session import BATCH_INFERENCES, Imported
from edgetop.imports.measured import Measured, Times
from edgetop.imports.read import Options, read_all
from edgetop.imports.trtexec import ORIGIN
from edgetop.recording.reader import Recording
from edgetop.recording.rows import WHOLE
from edgetop.wording.report_document import report_document
from tests.support import trtexec
from tests.support.clocks import ManualClock
from tests.support.recordings import back_to_back, record, session
from tests.support.sessions import differences, folded

pytestmark = pytest.mark.slow

MS = 1_000_000
NOW = datetime(2026, 11, 21, 10, 15, tzinfo=timezone.utc)


def imported(folder, *texts, model=None, warmup_ms=200, force=False):
    """A session of files that hold these texts."""
    paths = [folder / f"{number}.json" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    place = folder / "s.edgetop"
    Imported("s", model, read_all(paths, Options(warmup_ns=warmup_ms * MS))).record(place, NOW, force=force)
    return place


def analysed(folder):
    recording = Recording(folder)
    assert recording.problems == []
    return folded(recording.play())


def reported(folder):
    return report_document(analysed(folder))


def text_of(folder):
    return summary(report(analysed(folder)))


def test_the_latency_is_that_of_the_times(tmp_path):
    latency = reported(imported(tmp_path, trtexec.times(2000, spread=1.0)))["latency"]
    assert (latency["count"], latency["errors"], latency["min_ms"]) == (2000, 0, 2.375)
    assert latency["p50_ms"] == pytest.approx(2.875, rel=0.01)
    # From the first copy to the end of the last one, as trtexec has it.
    assert latency["throughput_hz"] == pytest.approx(2000 / (1999 * 2.5e-3 + 3.375e-3), rel=1e-3)


def test_warmup_is_reported_if_the_file_has_it_and_else_unknown(tmp_path):
    whole = reported(imported(tmp_path, trtexec.times(200, begin_ms=150.0)))
    assert whole["phases"]["warmup"] == {"runs": 20, "mean_ms": 2.375}
    assert (whole["latency"]["count"], whole["session"]["methodology"]["warmup_runs"]) == (180, 20)
    cut = reported(imported(tmp_path, trtexec.times(200), force=True))
    assert cut["phases"]["warmup"] == {"runs": None, "mean_ms": None}
    assert cut["session"]["methodology"]["warmup_runs"] is None
    assert "warm-up - runs of - ms" in text_of(imported(tmp_path, trtexec.times(200), force=True))
    assert "short-warmup" not in {warning["code"] for warning in cut["warnings"]}


def test_a_short_warmup_is_advised_on_in_the_terms_of_the_tool(tmp_path):
    (short,) = (
        warning
        for warning in reported(imported(tmp_path, trtexec.times(1000, begin_ms=190.0)))["warnings"]
        if warning["code"] == "short-warmup"
    )
    assert short["advice"] == "give trtexec a longer --warmUp, and import with that as --warmup-time"


def test_how_the_tool_ran_its_engine_is_not_made_up(tmp_path):
    analysis = analysed(imported(tmp_path, trtexec.times()))
    assert analysis.manifest.was_imported
    assert "  engine   tensorrt (imported from trtexec) on TensorRT\n" in summary(report(analysis))


def test_layer_operators_have_shares_of_latency_with_copies(tmp_path):
    document = reported(imported(tmp_path, trtexec.times(1000), trtexec.profile()))
    operators = document["operators"]
    assert [(o["op_type"], o["provider"], round(o["mean_us"])) for o in operators] == [
        ("Transfer", "TensorRT", 250),
        ("Reformat", "TensorRT", 250),
        ("Layer", "TensorRT", 1500),
        ("Layer", "TensorRT", 250),
        ("Transfer", "TensorRT", 125),
    ]
    assert document["partitions"] == 1
    assert {w["code"] for w in document["warnings"]} == {"dominant-operator", "conversions-time"}


def test_without_data_transfers_there_are_no_copies(tmp_path):
    operators = reported(imported(tmp_path, trtexec.times(1000, h2d_ms=0, d2h_ms=0), trtexec.profile()))["operators"]
    assert [o["op_type"] for o in operators] == ["Reformat", "Layer", "Layer"]


def test_a_profile_alone_has_its_own_times_and_no_latency(tmp_path):
    document = reported(imported(tmp_path, trtexec.profile()))
    assert [o["mean_us"] for o in document["operators"]] == [250, 1500, 250]
    assert (document["latency"]["count"], document["latency"]["p50_ms"]) == (0, None)
    assert document["session"]["duration_ns"] == 800 * MS


def test_times_alone_have_no_operators(tmp_path):
    assert reported(imported(tmp_path, trtexec.times()))["operators"] is None


def test_what_the_tool_does_not_tell_is_not_known(tmp_path):
    document = reported(imported(tmp_path, trtexec.times(), trtexec.profile()))
    manifest = document["session"]
    assert manifest["engine"]["runtime"] == "tensorrt (imported from trtexec)"
    assert manifest["engine"]["providers"] == ["TensorRT"]
    assert manifest["methodology"]["notes"] == ["imported from 0.json and 1.json of trtexec"]
    assert (manifest["model"]["path"], manifest["labels"]) == ("unknown", {"imported": "trtexec"})
    assert {v for k, v in manifest["board"].items() if k != "simulated"} == {None}
    assert (manifest["clock"]["boot_id"], manifest["clock"]["anchors"], manifest["sensors"]) == (None, [], [])
    assert (manifest["state"], manifest["end_reason"]) == ("finished", "runs")
    assert document["throttled"] is document["power"]["total_sensor"] is document["memory"]["rss_end_mib"] is None
    assert document["temperature"] == {}


def test_inferences_that_a_tool_only_sums_up_are_not_called_lost(tmp_path):
    printed = """Graph: [net.tflite]
Initialized session in 12.3ms.
Running benchmark for at least 50 iterations and at least 1 seconds but terminate if exceeding 150 seconds.
count=110 first=9100 curr=9000 min=8900 max=9600 avg=9050.3 std=45

Inference timings in us: Init: 12300, First inference: 20000, Warmup (avg): 9500, Inference (avg): 9050.3
"""
    recording = Recording(imported(tmp_path, printed))
    text = summary(report(folded(recording.play())))
    assert recording.lost is None
    assert "110 inferences" in text
    assert "lost" not in text


def test_a_name_for_the_model_can_be_given(tmp_path):
    assert reported(imported(tmp_path, trtexec.times(), model="r50.onnx"))["session"]["model"]["path"] == "r50.onnx"


def test_names_are_kept_as_they_are_and_shown_harmless(tmp_path):
    name = "\x1b[31mred [bold]" + "x" * 300 + '\ud800"'
    text = trtexec.profile((("NAME", 1.0),)).replace('"NAME"', json.dumps(name))
    folder = imported(tmp_path, text)
    assert reported(folder)["operators"][0]["name"].startswith("\x1b[31mred [bold]x")
    assert "\x1b" not in text_of(folder)


def test_events_are_in_the_order_of_time(tmp_path):
    folder = imported(tmp_path, trtexec.times(1000, begin_ms=599_999.0), trtexec.profile(), warmup_ms=600_000)
    events = [event for piece in Recording(folder).rows("events", WHOLE) for event in piece]
    assert [event.t_ns for event in events] == sorted(event.t_ns for event in events)
    assert [event.kind for event in events] == [
        "imported", "profiler", "coarse-times", "phase", "phase", "profile-burst", "ended",
    ]  # fmt: skip


def test_a_replay_ends_in_the_view_of_the_recording(tmp_path):
    folder = imported(tmp_path, trtexec.times(1000, begin_ms=150.0), trtexec.profile())
    clock = ManualClock()
    feed = ReplayFeed(Recording(folder), clock, speed=1.0, from_ns=0)
    replayed = Analysis()
    replayed.fold(feed.read())
    clock.advance(60)
    replayed.fold(feed.read())
    whole = analysed(folder)
    assert replayed.view(None).operators.bursts == 1
    assert differences(report_document(replayed), report_document(whole)) == []
    assert differences(replayed.view(None).operators, whole.view(None).operators) == []


def test_more_inferences_than_a_batch_holds_come_whole(tmp_path):
    count, each = BATCH_INFERENCES + 10, MS // 10
    times = Times(np.arange(count) * each, np.full(count, each), count * each, warmup=5, step_ns=1, parts_ms={})
    Imported("s", None, Measured(ORIGIN, ("t.json",), times, None)).record(tmp_path / "s.edgetop", NOW)
    assert reported(tmp_path / "s.edgetop")["latency"]["count"] == count - 5


def test_coarse_times_of_a_long_run_are_a_warning(tmp_path):
    late = {w["code"]: w for w in reported(imported(tmp_path, trtexec.times(1000, begin_ms=600_000.0)))["warnings"]}
    assert "steps of up to 0.062 ms, 2.6 % of the median" in late["coarse-times"]["message"]
    early = reported(imported(tmp_path, trtexec.times(1000), force=True))["warnings"]
    assert "coarse-times" not in {warning["code"] for warning in early}


def test_an_existing_session_is_replaced_only_if_imported(tmp_path):
    imported(tmp_path, trtexec.times(300))
    with pytest.raises(InputError, match="--force replaces it"):
        imported(tmp_path, trtexec.times(400))
    assert reported(tmp_path / "s.edgetop")["latency"]["count"] == 300
    imported(tmp_path, trtexec.times(400), force=True)
    assert reported(tmp_path / "s.edgetop")["latency"]["count"] == 400
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "s.edgetop"]


def test_files_of_the_user_stay_with_the_session_that_replaces_another(tmp_path):
    place = imported(tmp_path, trtexec.times(300))
    (place / "notes.txt").write_text("of the user")
    (place / "pictures").mkdir()
    imported(tmp_path, trtexec.times(400), force=True)
    assert ((place / "notes.txt").read_text(), (place / "pictures").is_dir()) == ("of the user", True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "s.edgetop"]


def test_what_was_not_imported_is_never_replaced(tmp_path):
    record(tmp_path / "s.edgetop", list(session(back_to_back(50, 20e6))))
    with pytest.raises(InputError, match="was not imported, and --force replaces nothing else"):
        imported(tmp_path, trtexec.times(), force=True)
    assert reported(tmp_path / "s.edgetop")["latency"]["count"] == 50


@pytest.mark.parametrize("error", [RecordingError("the disk is gone"), KeyboardInterrupt()])
def test_where_it_cannot_be_written_what_lay_there_is_put_back(tmp_path, monkeypatch, error):
    place = imported(tmp_path, trtexec.times(300))
    measured = read_all([tmp_path / "0.json"])
    monkeypatch.setattr(Imported, "_batches", lambda *_manifests: _breaks(error))
    with pytest.raises(type(error)):
        Imported("s", None, measured).record(place, NOW, force=True)
    assert reported(place)["latency"]["count"] == 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "s.edgetop"]


def _breaks(error):
    raise error
    yield
