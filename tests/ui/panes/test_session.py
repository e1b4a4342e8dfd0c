"""What runs, where and how, warnings first."""

from dataclasses import replace

from edgetop.ui.panes.session_pane import SESSION
from tests.support.screens import area, plain, text_of, view_of
from tests.support.scripts import Script, manifest, measured, paced


def rows(script: Script | None, width: int = 70) -> list[str]:
    return [plain(line) for line in SESSION.body(view_of(script), area(width, 20))]


def test_the_facts_stand_in_one_column() -> None:
    facts = rows(measured(5))
    assert facts[0] == "model      /home/pi/models/mobilenet_v2.onnx (onnx, 13.3 MiB)"
    assert facts[1] == "input      input float32 [1,3,224,224], random"
    assert facts[2] == "runtime    onnxruntime 1.23.2 on CPU"
    assert "start      load 412.0 ms, first inference 21.30 ms" in facts
    assert "begun      2026-11-21T10:15:02Z" in facts


def test_what_is_not_known_is_a_dash() -> None:
    bare = manifest(board=replace(manifest().board, model=None, cpu=None, cores=None, os=None, kernel=None))
    facts = rows(Script(bare))
    assert "runtime    - on -" in facts
    assert "board      -" in facts
    assert "cpu        -, - cores" in facts
    assert not any("None" in fact for fact in facts)


def test_of_a_session_that_was_imported_nothing_is_made_up() -> None:
    known = manifest()
    imported = manifest(
        model=replace(known.model, format=None, size_bytes=None),
        engine=replace(known.engine, runtime="tensorrt (imported)", version=None, providers=("TensorRT",)),
        clock=replace(known.clock, boot_id=None, anchors=()),
        labels={"imported": "trtexec"},
    )
    facts = rows(Script(imported))
    assert facts[0].endswith("mobilenet_v2.onnx (-)")
    assert "runtime    tensorrt (imported) on TensorRT" in facts
    assert "made       2026-11-21T10:15:02Z" in facts
    assert not any(fact.startswith(("threads", "isolation")) for fact in facts)
    assert "isolation  in a process" in rows(Script(known))


def test_a_warning_stands_first_with_its_advice() -> None:
    script = measured(5).tell("assumed-shape", "warning", message="input x is [1,3,224,224] by assumption")
    first, second, *_ = rows(script)
    assert first == "! input x is [1,3,224,224] by assumption"
    assert second.startswith("  give the shape that deployment uses with --shape")
    assert SESSION.title(view_of(script), area(70, 20)) == "1 warning"


def test_long_facts_go_on_in_their_column() -> None:
    facts = rows(measured(5), 40)
    assert facts[:2] == ["model      /home/pi/models/mobilenet_v2.", "           onnx (onnx, 13.3 MiB)"]


def test_labels_and_notes_are_told() -> None:
    whole = manifest(labels={"fan": "off"}, methodology=replace(manifest().methodology, notes=("in the box",)))
    text = text_of(SESSION.body(view_of(Script(whole)), area(70, 20)))
    assert "label      fan=off" in text
    assert "note       in the box" in text


def test_before_anything_has_come_it_says_so() -> None:
    assert rows(None) == ["no data yet"]


def test_the_load_and_each_gate_have_a_line() -> None:
    lines = SESSION.body(view_of(paced(60, hot="temp>40C", slow="p50>1s", cost="energy>1mJ")), area(90, 30))
    gates = {plain(line).split(":")[0]: line[-1].style for line in lines if plain(line).startswith("gate")}
    assert gates == {"gate temp>40C": "critical", "gate p50>1s": "good", "gate energy>1mJ": "warning"}
    assert "load       15 Hz evenly in each of 2 streams" in [plain(line) for line in lines]
