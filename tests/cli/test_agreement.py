"""What `ab` and `sweep` say of outputs that were kept: how far they agree, and how often each is right."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetop.cli.printing.output_agreement_words import judge_of, outputs_lines, with_outputs, worst
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group
from edgetop.errors import InputError
from edgetop.recording.kept_outputs import outputs_file, read_outputs
from tests.support.compared import made

ABOUT = {
    "outputs": [{"name": "y", "scale": 0, "zero_point": 0}],
    "inputs": [{"name": "x", "shape": [1, 3], "dtype": "float32", "source": "random"}],
    "seed": 0,
}
RIGHT, WRONG = [0.1, 0.9, 0.2], [0.9, 0.1, 0.2]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Of A both rows are right by the labels, of B one is."""
    for side, rows in (("A", (RIGHT, RIGHT)), ("B", (RIGHT, WRONG))):
        arrays = {f"{number:05}-0": np.array([row]) for number, row in enumerate(rows)}
        np.savez(
            tmp_path / outputs_file(side), about=np.array(json.dumps(ABOUT)), inputs=np.array(["i", "j"]), **arrays
        )
    np.save(tmp_path / "labels.npy", np.array([1, 1]))
    (tmp_path / "own_metric.py").write_text("def rows(outputs, labels):\n    return len(outputs['y']) + sum(labels)\n")
    return tmp_path


def test_how_often_each_is_right_is_a_line_and_in_the_document(kept: Path) -> None:
    judge = judge_of(kept / "labels.npy", "own_metric:rows", kept)
    lines = list(outputs_lines(kept, judge))
    assert lines[1:] == ["outputs    y: top-1 right: A 100.0 %, B 50.0 %", "outputs    own_metric:rows: A 4, B 4"]
    assert "same highest class 50.0 %" in lines[0]
    found = with_outputs({"ab": {"quads": 1}}, kept, judge)["ab"]["outputs"]
    assert [(one["key"], one["values"]) for one in found["judged"]] == [
        ("output/y/top-1", (1.0, 0.5)),
        ("metric/own_metric:rows", (4.0, 4.0)),
    ]


def test_labels_that_do_not_fit_leave_the_agreement(kept: Path) -> None:
    np.save(kept / "few.npy", np.array([1]))
    lines = list(outputs_lines(kept, judge_of(kept / "few.npy", None)))
    assert lines[0].startswith("outputs    --labels: they do not match: 1 of int64 for 2 rows")
    assert "same highest class" in lines[1]


def test_unusable_labels_and_metrics_are_refused_in_a_line(kept: Path) -> None:
    for path, metric, words in (
        ("absent.npy", None, "No such file"),
        ("labels.npy", "own_metric:no", "cannot be loaded"),
    ):
        with pytest.raises(InputError, match=words):
            judge_of(kept / path, metric, kept)


def test_they_are_columns_of_a_sweep(kept: Path) -> None:
    groups = [Group(side, (replace(made(1, seconds=5), outputs=read_outputs(kept, side)),)) for side in "AB"]
    found = compare(groups, judge=judge_of(kept / "labels.npy", "own_metric:rows", kept))
    assert worst(found, "A") == {"top-1": 1.0, "metric": 4.0}
    assert worst(found, "B") == {"same_top": 0.5, "snr_db": worst(found, "B")["snr_db"], "top-1": 0.5, "metric": 4.0}


def test_what_cannot_be_compared_is_named(kept: Path) -> None:
    """The name of an output comes from the model's file."""
    about = {**ABOUT, "outputs": [{"name": "\x1b[31mz", "scale": 0, "zero_point": 0}], "left_out": ["label\x1b[2J"]}
    rows = {f"{number:05}-0": np.array([row], np.uint8) for number, row in enumerate(([1, 9, 2], [9, 1, 2]))}
    np.savez(kept / outputs_file("B"), about=np.array(json.dumps(about)), inputs=np.array(["i", "j"]), **rows)
    first, second = outputs_lines(kept)
    assert first.startswith("outputs    \\x1b[31mz, compared with A's y: same highest class 50.0 %")
    assert first.endswith("B's are uint8 without a known scale, so only the classes can be compared")
    assert second == "outputs    not compared, because they are no numbers: label\\x1b[2J"
    found = with_outputs({"ab": {"quads": 1}}, kept)["ab"]["outputs"]
    assert found["left_out"] == ["label\x1b[2J"]
    assert found["agreement"][0]["unscaled"] == (None, "uint8")
    outputs = [{"name": name, "scale": 0, "zero_point": 0} for name in ("y", "\x1b[2Jmask")]
    more = {f"{number:05}-1": np.zeros((1, 4, 4)) for number in range(2)}
    about = np.array(json.dumps({**ABOUT, "outputs": outputs}))
    np.savez(kept / outputs_file("B"), about=about, inputs=np.array(["i", "j"]), **rows, **more)
    first, second = outputs_lines(kept)
    assert first.startswith("outputs    y of B to A's: ")
    assert second == "outputs    not compared: \\x1b[2Jmask, which only B has"
    assert with_outputs({"ab": {}}, kept)["ab"] == {}
    assert with_outputs({"ab": {"quads": 1}}, kept)["ab"]["outputs"]["unpaired"] == [[], ["\x1b[2Jmask"]]
    nothing = {f"{number:05}-0": np.zeros((0, 3)) for number in range(2)}
    for side in "AB":
        np.savez(kept / outputs_file(side), about=np.array(json.dumps(ABOUT)), inputs=np.array(["i", "j"]), **nothing)
    assert list(outputs_lines(kept)) == ["outputs    y of B to A's: it holds no numbers"]
