"""trtexec's files of every version, and what is none of them."""

import json

import numpy as np
import pytest

from edgetop.imports.trtexec import LAYER, MAX_MS, REFORMAT, read_profile, read_times
from tests.support import trtexec

MS = 1_000_000
VERSIONS = (7, 8.0, 8.4, 10)


def times(warmup_ns=200 * MS, **changes):
    return read_times(json.loads(trtexec.times(**changes)), warmup_ns)


def profile(*arguments, **changes):
    return read_profile(json.loads(trtexec.profile(*arguments, **changes)))


@pytest.mark.parametrize("version", VERSIONS)
def test_latency_is_copies_and_compute_and_starts_begin_at_zero(version):
    found = times(count=4, version=version)
    assert found.start_ns.tolist() == [0, 2.5 * MS, 5 * MS, 7.5 * MS]
    assert found.latency_ns.tolist() == [2.375 * MS] * 4
    assert found.parts_ms == {"h2d": 0.25, "compute": 2.0, "d2h": 0.125}
    assert found.warmup is None


def test_the_end_is_the_last_copy_to_the_host_though_it_waited():
    entries = json.loads(trtexec.times(count=2))
    entries[1]["endD2hMs"] = 210.0
    assert read_times(entries).end_ns == 10 * MS


def test_computing_begun_within_the_warmup_is_warmup():
    found = times(count=10, begin_ms=190.0)
    computing_from = 190.25 + 2.5 * np.arange(10)
    assert found.warmup == np.count_nonzero(computing_from < 200) == 4
    assert times(count=10, begin_ms=190.0, warmup_ns=0).warmup is None


def test_inferences_of_several_streams_are_put_in_order():
    entries = json.loads(trtexec.times(count=3, spread=3))
    found = read_times([entries[2], entries[0], entries[1]])
    assert found.start_ns.tolist() == [0, 2.5 * MS, 5 * MS]
    assert np.diff(found.latency_ns).tolist() == [MS, MS]


def test_late_in_a_long_run_its_floats_have_coarse_steps():
    assert times(count=2).step_ns == pytest.approx(np.spacing(np.float32(205)) * MS)
    assert times(count=2, begin_ms=3_600_000.0).step_ns == 0.25 * MS == np.spacing(np.float32(3_600_000)) * MS


@pytest.mark.parametrize("version", VERSIONS)
def test_layers_have_all_their_calls_and_only_reformats_a_type(version):
    found = profile(version=version)
    assert found.runs == 400
    assert [(o.op_type, o.calls, o.total_ns) for o in found.operators] == [
        (REFORMAT, 400, 100 * MS),
        (LAYER, 400, 600 * MS),
        (LAYER, 400, 100 * MS),
    ]
    assert found.operators[1].name == "conv1 + relu1"


def test_a_layer_that_ran_less_often_has_its_own_call_count():
    entries = json.loads(trtexec.profile(count=400))
    entries[2]["averageMs"] = 600 / 100
    assert [o.calls for o in read_profile(entries).operators] == [400, 100, 400]


def changed(text, place, **changes):
    entries = json.loads(text)
    entries[place].update(changes)
    return [{k: v for k, v in entry.items() if v is not ...} for entry in entries]


BAD_TIMES = {
    "no duration": (changed(trtexec.times(3), 1, latencyMs=...), "entry 1 has no latencyMs"),
    "a negative one": (changed(trtexec.times(3), 2, latencyMs=-1.0), "entry 2: latencyMs is no time of such a run"),
    "none at all": (changed(trtexec.times(3), 2, latencyMs=0), "entry 2: latencyMs is 0"),
    "a word": (changed(trtexec.times(3), 0, startH2dMs="soon"), "entry 0: startH2dMs is no time of such a run: 'soon'"),
    "true": (changed(trtexec.times(3), 0, latencyMs=True), "latencyMs is no time"),
    "a century": (changed(trtexec.times(3), 2, startH2dMs=3e12), "entry 2: startH2dMs is no time"),
    "a number beyond floats": (changed(trtexec.times(3), 2, latencyMs=10**400), "entry 2: latencyMs is no time"),
    "no start": (changed(trtexec.times(3), 0, startH2dMs=..., startEnqMs=...), "entry 0 has no startH2dMs"),
    "a list": ([*json.loads(trtexec.times(1)), []], "entry 1 has no "),
    "warm-up alone": (json.loads(trtexec.times(3, begin_ms=10.0)), "3 inferences, and all of the warm-up of 200 ms"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TIMES)
def test_times_that_cannot_be_are_refused(case):
    entries, why = BAD_TIMES[case]
    with pytest.raises(ValueError, match=why):
        read_times(entries)


BAD_PROFILES = {
    "no count": (changed(trtexec.profile(), 0, count=0), "count is no number of inferences"),
    "half an inference": (changed(trtexec.profile(), 0, count=0.5), "count is no number of inferences"),
    "no layers": (json.loads(trtexec.profile())[:1], "it has no layers"),
    "too many": ([*json.loads(trtexec.profile()), *[{}] * 20_000], "more than 20000 layers"),
    "no name": (changed(trtexec.profile(), 1, name=...), "entry 1 has no name"),
    "a number for a name": (changed(trtexec.profile(), 1, name=5), "entry 1 has no name"),
    "a time beyond the run": (changed(trtexec.profile(), 3, timeMs=2 * MAX_MS), "entry 3: timeMs is no time"),
    "nothing took any time": (
        [{"count": 1}, {"name": "a", "timeMs": 0, "averageMs": 0, "percentage": 0}],
        "every timeMs is 0",
    ),
}


@pytest.mark.parametrize("case", BAD_PROFILES)
def test_profiles_that_cannot_be_are_refused(case):
    entries, why = BAD_PROFILES[case]
    with pytest.raises(ValueError, match=why):
        read_profile(entries)


def test_the_first_versions_do_not_tell_when_work_was_enqueued():
    """Without `startEnqMs`, `startInMs` is the start of the copy to the device."""
    entries = json.loads(trtexec.times(count=3, version=7))
    for entry in entries:
        entry["startInMs"] = entry.pop("startEnqMs")
        entry.pop("endEnqMs", None)
    assert read_times(entries).start_ns.tolist() == [0, 2.5 * MS, 5 * MS]
