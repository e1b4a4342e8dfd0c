"""session.json: its keys are a contract, and garbage in it is told by its key."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session.clock import Anchor
from edgetop.session.load_settings import ImageInput, Load
from edgetop.session.manifest import (
    BackgroundProcess,
    Battery,
    Board,
    ClockInfo,
    Constraints,
    EngineInfo,
    HistogramInfo,
    Manifest,
    Methodology,
    Model,
    SensorInfo,
    TensorInfo,
    shortened,
)
from edgetop.session.manifest_codec import from_json, to_json
from tests.support.sessions import make_manifest

RICH = make_manifest(
    SensorInfo("temp/cpu", "°C", "/sys/x", trips={"passive": 85.0, "critical": 105.0}),
    SensorInfo("cooling/0-fan", "state", "/sys/y", throttles=False, max_state=4),
    SensorInfo("freq/cpu0", "MHz", "/sys/z", max=2400.0, note="one of four"),
    SensorInfo("power/VDD_IN", "W", "i2c", role="total", accuracy="external-shunt", simulated=True),
    state="finished",
    end_reason="duration",
    duration_ns=60_000_000_000,
    clock=ClockInfo(123, "a-boot", (Anchor(0, "2026-11-21T10:15:02.123456Z"), Anchor(7, "2026-11-21T11:15:02.0Z"))),
    histogram=HistogramInfo(20, 6),
    board=Board("Pi 5", "bcm2712", "6.6", "Debian", "Cortex-A76", 4, 8 * 2**30, "MAXN", "ondemand", True),
    model=Model("m.onnx", "abc", 5, "onnx", (TensorInfo("x", (1, 3, 224, 224), "float32"),), "fp32"),
    engine=EngineInfo("onnxruntime", "1.20", ("XNNPACK", "CPU"), 4, "thread", 5, 6, 2),
    load=Load("fixed", 30.0, 33_000_000, 2, 8, "x.npy"),
    methodology=Methodology(
        50,
        1000,
        1.5,
        2.5,
        35.0,
        "box",
        {"temp/cpu": 41.5},
        (BackgroundProcess("cron", 0.5),),
        "fifo",
        ("a", "b"),
        Battery(3.7, 1000.0, 2.0, 0.15),
    ),
    constraints=Constraints(1.5, 512 * 2**20),
    labels={"build": "17", "naïve": "ü"},
)


def rebuilt(manifest: Manifest) -> Manifest:
    return from_json(json.loads(json.dumps(to_json(manifest))))


def test_what_is_written_is_what_is_read() -> None:
    assert rebuilt(RICH) == RICH


def texts() -> st.SearchStrategy[str | None]:
    return st.one_of(st.none(), st.text())


def accuracies() -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, "external-shunt", "on-board-monitor", "firmware-estimate"])


def trips() -> st.SearchStrategy[dict[str, float] | None]:
    return st.one_of(st.none(), st.dictionaries(st.text(), st.floats(allow_nan=False)))


WHOLE = st.integers(-(2**62), 2**62)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(
    st.builds(Board, texts(), texts(), texts(), texts(), texts(), WHOLE, WHOLE, texts(), texts()),
    st.builds(
        Load,
        st.sampled_from(["closed", "fixed", "poisson"]),
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        st.one_of(st.none(), WHOLE),
        WHOLE,
    ),
    st.dictionaries(st.text(), st.text()),
    st.lists(st.builds(TensorInfo, st.text(), st.lists(WHOLE).map(tuple), st.text())).map(tuple),
    st.lists(st.builds(SensorInfo, st.text(), st.text(), st.text(), texts(), accuracies(), st.booleans(), trips())).map(
        tuple
    ),
)
def test_any_manifest_survives_its_file(
    board: Board, load: Load, labels: dict[str, str], inputs: tuple[TensorInfo, ...], sensors: tuple[SensorInfo, ...]
) -> None:
    manifest = make_manifest(*sensors, board=board, load=load, labels=labels, model=Model("m", inputs=inputs))
    assert rebuilt(manifest) == manifest


# As the section "session.json" of the format has them.
KEYS = {
    "": (
        "format_version id name state end_reason edgetop_version created_utc duration_ns clock histogram board model"
        " engine load methodology constraints labels sensors"
    ),
    "clock": "origin_monotonic_ns boot_id anchors",
    "histogram": "unit_ns sub_bucket_bits",
    "board": "model soc kernel os cpu cores memory_bytes power_mode governor simulated",
    "model": "path sha256 size_bytes format inputs precision signature beside_bytes",
    "engine": (
        "runtime version providers threads isolation init_ns first_ns partitions asked xnnpack settings compile_ns"
    ),
    "load": "mode rate_hz deadline_ns streams batch input images delay_ns duty_on_ns duty_off_ns seed arrays",
    "methodology": (
        "warmup_runs measure_runs cooldown_s idle_baseline_s ambient_c enclosure"
        " start_temperatures background"
        " scheduler notes battery stream_runs cooldown_to_c cooldown_c background_unseen ambient_sensor"
    ),
    "constraints": "cpus memory_bytes quota_pct quota_period_ms",
}


@pytest.mark.parametrize("where", KEYS)
def test_keys_and_their_order_are_those_of_the_format(where: str) -> None:
    document = to_json(RICH)
    assert list(document[where] if where else document) == KEYS[where].split()


def test_lists_hold_objects_with_the_keys_of_the_format() -> None:
    document = to_json(RICH)
    assert list(document["clock"]["anchors"][0]) == ["t_ns", "utc"]
    assert list(document["model"]["inputs"][0]) == ["name", "shape", "dtype"]
    assert list(document["methodology"]["background"][0]) == ["name", "cpu_pct"]
    assert list(document["methodology"]["battery"]) == ["volts", "capacity_mah", "rate_hz", "extra_w"]
    sensor = list(document["sensors"][0])
    assert sensor[:6] == ["id", "unit", "source", "role", "accuracy", "simulated"]
    assert {"trips", "throttles", "max_state", "max"} <= set(sensor)


def test_no_key_tells_who_or_which_machine() -> None:
    text = json.dumps(to_json(RICH)).lower()
    assert not [word for word in ("serial", "host", "user") if word in text]


def test_keys_that_are_not_known_are_ignored() -> None:
    document = to_json(RICH)
    document["added_later"] = 1
    document["board"]["added_later"] = {}
    document["sensors"][0]["added_later"] = None
    assert from_json(document) == RICH


def test_what_a_file_leaves_out_is_not_known() -> None:
    document = to_json(make_manifest())
    for key in ("end_reason", "duration_ns", "methodology", "constraints", "labels", "sensors", "histogram"):
        del document[key]
    document["board"] = {}
    manifest = from_json(document)
    assert manifest.duration_ns is manifest.end_reason is manifest.board.memory_bytes is None
    assert manifest.histogram == HistogramInfo(10, 7)


def test_the_input_is_told_with_the_options_of_pictures() -> None:
    assert Load(input="a.npy").fed == "a.npy"
    assert Load(input="a.npy", seed=7).fed == "a.npy"
    assert Load(input="random:16", seed=0).fed == "random:16"
    assert Load(input="random, sr=16000", seed=7).fed == "random, sr=16000, seed 7"
    images = ImageInput((320, 240), "nhwc", (1.0, 2.5, 3.0), (0.5,))
    assert Load(input="crops", images=images).fed == "crops, size 320x240, layout nhwc, mean 1,2.5,3, scale 0.5"


def test_what_nobody_said_is_none() -> None:
    document = to_json(make_manifest(SensorInfo("temp/cpu", "°C", "x"), board=Board()))
    objects = {where: part for where, part in document.items() if isinstance(part, dict)}
    none = {where: [key for key, value in part.items() if value is None] for where, part in objects.items()}
    assert none["board"] == KEYS["board"].split()[:-1]
    assert none["engine"] == ["runtime", "version", "init_ns", "first_ns", "partitions", "xnnpack", "compile_ns"]
    of_duty = ["duty_on_ns", "duty_off_ns"]
    assert none["load"] == ["rate_hz", "deadline_ns", "batch", "images", "delay_ns", *of_duty, "seed", "arrays"]
    assert none["model"] == ["sha256", "size_bytes", "format", "precision", "signature", "beside_bytes"]
    assert none["constraints"] == KEYS["constraints"].split()
    assert set(none["methodology"]) == set(KEYS["methodology"].split()) - {
        "start_temperatures", "background", "notes", "stream_runs",
    }  # fmt: skip
    assert document["end_reason"] is document["duration_ns"] is document["sensors"][0]["trips"] is None


@pytest.mark.parametrize("key", ["format_version", "id", "name", "state", "created_utc", "clock", "model", "load"])
def test_a_key_that_must_be_there_is_named(key: str) -> None:
    document = to_json(RICH)
    del document[key]
    with pytest.raises(ValueError, match=rf"session\.json: {key} is missing"):
        from_json(document)


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value of a document."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def wrong_values(right: object) -> list[object]:
    """Values of every other type."""
    number = isinstance(right, int | float) and not isinstance(right, bool)
    candidates = ["text", 1.5, True, [1], {"a": 1}]
    if isinstance(right, str):
        candidates[0] = 7
    if number:
        candidates = ["5", True, [5], {}, *([1.5] if isinstance(right, int) else [])]
    if isinstance(right, bool):
        candidates = ["true", 1, 0, []]
    if isinstance(right, list):
        candidates = ["text", 5, {}, True]
    if isinstance(right, Mapping):
        candidates = ["text", 5, [], True]
    return candidates


def with_value(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    document = json.loads(json.dumps(to_json(RICH)))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return document


def value_at(path: tuple[str | int, ...]) -> object:
    value: Any = to_json(RICH)
    for key in path:
        value = value[key]
    return value


# What an error names: keys of the format, not those that a user chose.
OF_LISTS = "t_ns utc name shape dtype cpu_pct id unit source role trips throttles max_state max note"
KNOWN_KEYS = {key for keys in (*KEYS.values(), OF_LISTS) for key in keys.split()}

CHECKED = [path for path in places(to_json(RICH)) if value_at(path) is not None]
# Without these a session can still be read.
DESCRIPTIONS = ("end_reason", "board", "model", "engine", "methodology", "constraints", "labels")


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: ".".join(map(str, path)))
def test_a_value_of_the_wrong_type_is_told_by_its_key(path: tuple[str | int, ...]) -> None:
    key = next(part for part in reversed(path) if isinstance(part, str) and part in KNOWN_KEYS)
    for wrong in wrong_values(value_at(path)):
        if path[0] in DESCRIPTIONS:
            manifest = from_json(with_value(path, wrong))
            assert manifest.unread == (": ".join(map(str, path[:2])) if path[0] != "labels" and path[1:] else path[0],)
            assert (manifest.id, manifest.sensors, manifest.load) == (RICH.id, RICH.sensors, RICH.load)
            continue
        with pytest.raises(ValueError, match=rf"^session\.json: .*{key}"):
            from_json(with_value(path, wrong))


def test_a_damaged_description_costs_itself_alone() -> None:
    document = with_value(("board", "cores"), [])
    document["model"]["path"], document["lost"], document["added_later"] = {"a": 1}, 5, {"b": 2}
    manifest = from_json(document)
    assert manifest.unread == ("board: cores", "model: path", "lost")
    assert manifest.board == replace(RICH.board, cores=None)
    assert manifest.model == replace(RICH.model, path="")
    assert manifest.lost is not None
    assert manifest.lost.inferences is None
    assert "unread" not in to_json(manifest)
    assert from_json({**to_json(RICH), "unread": ["x"]}) == RICH


OUTSIDE = "../../etc/passwd"


@pytest.mark.parametrize("wrong", [
    "", ".", "..", OUTSIDE, f"/{RICH.id}", f"{RICH.id}/..", f"{RICH.id}\n", RICH.id.upper(), f"{{{RICH.id}}}",
    RICH.id.replace("-", ""), RICH.id.replace("5", "\u0665"), "\ud800", "x" * 40, f"{RICH.id}\0",
])  # fmt: skip
def test_an_id_is_a_uuid(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"session\.json: id"):
        from_json(with_value(("id",), wrong))


@pytest.mark.parametrize("wrong", [
    "", OUTSIDE, "../../../x", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "2026-11-21",
    "2026-11-21T10:15:02", "2026-11-21T10:15:02.123456Z\n", "2026-11-21T10:15:02.1/2Z", "2026-11-21 10:15:02Z",
    "\u0662026-11-21T10:15:02Z", "2026-11-21T25:15:02Z",
])  # fmt: skip
def test_a_date_is_a_date(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"session\.json: created_utc"):
        from_json(with_value(("created_utc",), wrong))


@pytest.mark.parametrize("right", ["2026-11-21T10:15:02Z", "1970-01-01T00:00:42.000000Z", "2026-11-21T10:15:02.1Z"])
def test_dates_of_other_precisions_and_clocks_are_dates(right: str) -> None:
    assert from_json(with_value(("created_utc",), right)).created_utc == right


def test_sizes_are_bounded() -> None:
    for path, wrong in (
        (("name",), "x" * 200_000), (("sensors",), [to_json(RICH)["sensors"][0]] * 70_000), (("duration_ns",), 10**50),
        (("clock", "origin_monotonic_ns"), 2**63), (("load", "delay_ns"), 2**63), (("load", "batch"), 2**63),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=path[-1]):
            from_json(with_value(path, wrong))


def test_a_long_command_is_cut() -> None:
    assert shortened(("edgetop", "run")) == ("edgetop", "run")
    cut = shortened(("watch", "--", *(f"picture-{number}.jpg" for number in range(100_000))))
    assert cut[-1].endswith("…")
    assert from_json(to_json(replace(RICH, command=cut))).command == cut
    assert len("".join(cut)) < 20_000


def test_none_is_refused_where_a_value_must_be() -> None:
    for path in (("id",), ("clock",), ("sensors",), ("load", "mode")):
        with pytest.raises(ValueError, match=path[-1]):
            from_json(with_value(path, None))
    assert from_json(with_value(("board", "simulated"), None)).unread == ("board: simulated",)


def test_states_and_modes_that_are_not_known_are_refused() -> None:
    for path in (("state",), ("load", "mode")):
        with pytest.raises(ValueError, match=path[-1]):
            from_json(with_value(path, "sleeping"))


def test_a_whole_number_stands_for_a_float() -> None:
    manifest = from_json(with_value(("load", "rate_hz"), 30))
    assert manifest.load.rate_hz == 30.0
    assert isinstance(manifest.load.rate_hz, float)


def test_a_number_beyond_all_floats_is_refused() -> None:
    with pytest.raises(ValueError, match="rate_hz"):
        from_json(with_value(("load", "rate_hz"), 10**400))


@pytest.mark.parametrize("document", [None, 5, "text", [], True])
def test_what_is_not_an_object_is_no_manifest(document: Any) -> None:
    with pytest.raises(ValueError, match="not an object"):
        from_json(document)


def test_a_sensor_knows_its_kind_and_its_label() -> None:
    sensor = SensorInfo("freqcap/cpu0/big", "MHz", "x")
    assert (sensor.kind, sensor.label) == ("freqcap", "cpu0/big")


def test_a_load_has_the_rate_of_all_streams_over_its_duty_cycle() -> None:
    load = Load(mode="fixed", rate_hz=30.0, streams=2, duty_on_ns=2_000_000_000, duty_off_ns=8_000_000_000)
    assert (load.is_paced, load.stream_hz, load.asked_hz) == (True, 6.0, 12.0)
    assert load.longest_rest_ns == 8_033_333_333
    assert (Load().is_paced, Load().asked_hz, Load().longest_rest_ns) == (False, None, 0)


@pytest.mark.parametrize("rate_hz", [0.0, -5.0, float("inf"), float("nan"), 1e-300, None])
def test_a_rate_that_cannot_be_plans_nothing(rate_hz: float | None) -> None:
    load = Load(mode="poisson", rate_hz=rate_hz, streams=0, duty_on_ns=-5, duty_off_ns=5)
    assert (load.is_paced, load.asked_hz, load.longest_rest_ns) == (False, None, 5)


def test_only_what_ran_nowhere_that_is_known_was_imported() -> None:
    labels = {"imported": "trtexec"}
    assert make_manifest(labels=labels, clock=ClockInfo(0, None)).was_imported
    assert not make_manifest(labels=labels, clock=ClockInfo(0, "a-boot")).was_imported
    assert not make_manifest(clock=ClockInfo(0, None)).was_imported


@pytest.mark.parametrize(("anchors", "began"), [
    ([(0, "1970-01-01T00:00:42.000000Z")], "1970-01-01T00:00:42.000000Z"),
    ([(0, "1970-01-01T00:00:42.000000Z"), (2, "2026-11-21T10:15:04.000000Z")], "2026-11-21T10:15:02.000000Z"),
    ([(2, "1970-01-01T00:00:45.000000Z")], "1970-01-01T00:00:42.000000Z"),
    ([(2, "no time")], "1970-01-01T00:00:42.000000Z"),
    ([], "1970-01-01T00:00:42.000000Z"),
])  # fmt: skip
def test_a_session_began_when_the_clock_says_that_was_set_last(anchors: list[tuple[int, str]], began: str) -> None:
    known = tuple(Anchor(seconds * 10**9, utc) for seconds, utc in anchors)
    clock = ClockInfo(123, "a-boot", known)
    assert make_manifest(created_utc="1970-01-01T00:00:42.000000Z", clock=clock).began_utc == began
