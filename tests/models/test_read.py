import resource

import pytest

from edgetop.errors import InputError
from edgetop.models.inspection import read_model
from tests.support import onnx_models, tflite_models


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def test_both_formats_are_read_from_their_files(tmp_path):
    assert read_model(written(tmp_path, "m.onnx", onnx_models.onnx_tiny()), "onnx").format == "onnx"
    assert read_model(written(tmp_path, "m.tflite", tflite_models.tflite_tiny()), "tflite").format == "tflite"


@pytest.mark.parametrize(
    ("content", "fmt", "said"),
    [
        (b"", "onnx", "is empty"),
        (b"\x18\0\0\0ORTM" + bytes(100), "onnx", "ONNX Runtime's own format"),
        (onnx_models.onnx_tiny()[:-40], "onnx", "damaged or incomplete"),
        (tflite_models.tflite_mobile()[:9000], "tflite", "damaged or incomplete"),
        (b"\x3a\x00" * 5, "tflite", "no TFLite model"),
    ],
)
def test_what_cannot_be_read_is_an_input_error(tmp_path, content, fmt, said):
    with pytest.raises(InputError, match=said):
        read_model(written(tmp_path, "model", content), fmt)


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_model(tmp_path / "gone.onnx", "onnx")


def test_gigabytes_of_weights_are_stepped_over(tmp_path):
    size = 3 * 2**30
    # graph { initializer { dims, data_type, raw_data of 3 GiB } }, opset_import, with a hole for the weights
    tensor_head = b"\x08" + varint(size // 4) + b"\x10\x01" + b"\x4a" + varint(size)
    graph_head = b"\x2a" + varint(len(tensor_head) + size) + tensor_head
    head = b"\x08\x08" + b"\x3a" + varint(len(graph_head) + size) + graph_head
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.write(head)
        file.seek(size, 1)
        file.write(b"\x42\x02\x10\x0d")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = read_model(path, "onnx")
    assert model.graph.tensors[0].stored_bytes == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
