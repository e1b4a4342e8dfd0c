"""The fingerprint of a model file, small or large."""

import hashlib
import os
from types import SimpleNamespace

import pytest

from edgetop.runner import model_file
from edgetop.runner.model_file import LARGE_BYTES, ModelFiles, sha256


def model_of(path, size):
    path.write_bytes(b"a model")
    os.truncate(path, size)
    return path


@pytest.mark.parametrize("size", [0, 100_000, LARGE_BYTES])
def test_a_fingerprint_is_the_sha256_of_the_file(tmp_path, size):
    path = model_of(tmp_path / "model.onnx", size)
    assert sha256(str(path)) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_is_gone_has_no_fingerprint(tmp_path):
    assert sha256(str(tmp_path / "gone.onnx")) is None


def test_a_session_that_ends_waits_for_the_fingerprints_of_both_its_models(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "FINGERPRINT_PATIENCE_S", 30.0)
    paths = [model_of(tmp_path / name, LARGE_BYTES + number) for number, name in enumerate("ab")]
    first, other = (SimpleNamespace(path=str(path)) for path in paths)
    ab = SimpleNamespace(variants=[SimpleNamespace(model=first), SimpleNamespace(model=other)])
    told = {}
    state = SimpleNamespace(
        manifest=SimpleNamespace(model=first, ab=ab),
        profiles=False,
        set_sha256=lambda digest, side: told.setdefault(side, digest),
        precision_known=lambda dtype: None,
        data_dependent=lambda *found: None,
    )
    files = ModelFiles(state, lambda: None)
    files.begin(())
    files.begin_other()
    files.finish()
    assert told == {side: hashlib.sha256(path.read_bytes()).hexdigest() for side, path in enumerate(paths)}
