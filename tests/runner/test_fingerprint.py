"""The fingerprint of a model file, small or large."""

import hashlib
import os

import pytest

from edgetop.runner.model_file import LARGE_BYTES, sha256


@pytest.mark.parametrize("size", [0, 100_000, LARGE_BYTES])
def test_a_fingerprint_is_the_sha256_of_the_file(tmp_path, size):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"a model")
    os.truncate(path, size)
    assert sha256(str(path)) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_is_gone_has_no_fingerprint(tmp_path):
    assert sha256(str(tmp_path / "gone.onnx")) is None
