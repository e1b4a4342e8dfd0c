"""Run models in ncnn. The timed work is to make an ncnn extractor, set its inputs and extract all outputs.

API: https://github.com/Tencent/ncnn/blob/master/python/src/main.cpp. A model is two files, `NAME.param` and `NAME.bin`.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..engine_error import EngineError, one_line

MAX_LAYERS = 100_000
RAW = 1  # `type` of `Extractor.extract`: a blob as it is, without unpacking it and without a conversion to float32
_SWITCHES = {  # options of `--provider CPU:...`, which are members of ncnn::Option (src/option.h)
    "fp16": ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"),
    "bf16": ("use_bf16_storage",),
    "int8": ("use_int8_inference",),
    "winograd": ("use_winograd_convolution",),
    "sgemm": ("use_sgemm_convolution",),
    "packing": ("use_packing_layout",),
}


class Layer:
    """A layer in ncnn's param file: its type and name, and the names of the tensors that it reads and writes."""

    def __init__(self, line: str) -> None:
        """Parse a line of a param file. Raises ValueError or IndexError if it is malformed."""
        fields = line.split()
        self.type, self.name = fields[0], fields[1]
        reads, writes = int(fields[2]), int(fields[3])
        if min(reads, writes) < 0 or 4 + reads + writes > len(fields):
            raise ValueError("a layer without its blobs")
        self.reads, self.writes = fields[4 : 4 + reads], fields[4 + reads : 4 + reads + writes]
        given = (pair.split("=", 1) for pair in fields[4 + reads + writes :] if "=" in pair)
        self.parameters = {int(key): value for key, value in given}


def read_layers(path: str) -> List[Layer]:
    """Return the layers that ncnn's param file lists. `path` is the file's path.

    Raises EngineError("model") if the file is damaged. ncnn itself reads on after a layer that it cannot parse.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line for line in file.read(64 * 2**20).splitlines() if line.strip()]
        count = int(lines[1].split()[0])
        layers = [Layer(line) for line in lines[2 : 2 + min(count, MAX_LAYERS)]]
    except (ValueError, IndexError):
        raise EngineError("model", "%s: is no complete param file of ncnn" % path, "get it again") from None
    if not 0 < count <= MAX_LAYERS or len(layers) < count:
        text = "%s: names %d layers and has %d" % (path, count, len(layers))
        raise EngineError("model", text, "it is cut short: get it again")
    return layers


def weights_of(path: str) -> str:
    """Return the path of the weights, such as `x.bin` for the param file `x.param`.

    Raises EngineError("model") if there is no such file.
    """
    weights = path[: -len(".param")] + ".bin" if path.endswith(".param") else path + ".bin"
    if not os.path.isfile(weights):
        raise EngineError("model", "%s: its weights are missing: no file %s" % (path, weights), "keep both together")
    return weights


class Ncnn:
    interface = 1
    lacks_batch = True
    profiled_by = "estimate (extraction): the output of each layer extracted in turn"

    def open(self, model: str, options: Mapping[str, Any]) -> None:
        """Load the param file at the path `model` and its weights. Raises EngineError if that fails.

        `options` has "threads" (a number, or None for ncnn's default) and "providers", which are (name, options) pairs.
        """
        import ncnn  # noqa: PLC0415  the runtime

        self._ncnn = ncnn
        self._net = ncnn.Net()
        self._layers = read_layers(model)
        settings = self._net.opt
        if options["threads"]:
            settings.num_threads = options["threads"]
        self._device = "CPU"
        for name, more in options["providers"]:
            self._device = self._chosen(name, more)
        if self._net.load_param(model) != 0:
            text = "%s: ncnn cannot load it" % model
            unknown = [layer.type for layer in self._layers if ncnn.layer_to_index(layer.type) < 0]
            if unknown:
                text = "%s: this version of ncnn has no layer %s" % (model, one_line(unknown[0], 80))
            raise EngineError("model", text, "take a version that has it" if unknown else "get it again")
        weights = weights_of(model)
        if self._net.load_model(weights) != 0:
            raise EngineError("model", "%s: does not hold all weights of %s" % (weights, model), "get both again")
        self._inputs = list(self._net.input_names())
        self._outputs = list(self._net.output_names())
        self._mats: List[Any] = []

    def _chosen(self, name: str, options: Mapping[str, str]) -> str:
        """Apply the options of the provider `name`, such as {"fp16": "0"}, and return "CPU" or "Vulkan".

        Raises EngineError("input") for an unknown provider or option.
        """
        settings = self._net.opt
        if name.upper() not in ("CPU", "VULKAN"):
            raise EngineError("input", "--provider %s: ncnn has CPU and Vulkan" % name)
        for key, value in options.items():
            if key not in _SWITCHES or value not in ("0", "1"):
                known = ", ".join("%s=0|1" % switch for switch in _SWITCHES)
                raise EngineError("input", "--provider %s:%s=%s: ncnn has %s" % (name, key, value, known))
            for member in _SWITCHES[key]:
                setattr(settings, member, value == "1")
        if name.upper() == "CPU":
            return "CPU"
        count = self._ncnn.get_gpu_count() if hasattr(self._ncnn, "get_gpu_count") else 0
        if not count:
            raise EngineError("input", "--provider Vulkan: ncnn finds no Vulkan device here", "use --provider CPU")
        settings.use_vulkan_compute = True
        return "Vulkan"

    def inputs(self) -> List[Tuple[str, List[Optional[int]], str]]:
        """Return a tuple (name, [channels, height, width], element type) for each input.

        ncnn has no batch dimension. A size that the param file leaves open is None.
        """
        by_blob = {layer.writes[0]: layer for layer in self._layers if layer.type == "Input" and layer.writes}
        return [(name, _shape(by_blob.get(name)), "float32") for name in self._inputs]

    def bind(self, feeds: Dict[str, Any]) -> Callable[[], Any]:
        # A Mat of an array shares its memory and does not count references. By that count, ncnn decides whether a layer
        # may write into its input (NetPrivate::do_forward_layer, src/net.cpp). A clone counts them.
        self._mats = [(name, self._ncnn.Mat(feeds[name]).clone()) for name in self._inputs]
        return self._infer

    def _infer(self) -> List[Any]:
        with self._net.create_extractor() as extractor:
            for name, mat in self._mats:
                extractor.input(name, mat)
            found = []
            for name in self._outputs:
                status, mat = extractor.extract(name)
                if status != 0:
                    raise RuntimeError("ncnn cannot compute %s (status %d): see --shape" % (name, status))
                found.append(mat)
            return found

    def outputs(self, done: Any) -> List[Tuple[str, Any]]:
        import numpy as np  # noqa: PLC0415  as the runtime

        return [(name, np.array(mat)) for name, mat in zip(self._outputs, done)]

    def profile(self) -> Tuple[int, List[Tuple[str, str, str, int]]]:
        """Run the model once, layer by layer. Return its duration in ns, and (name, type, device, ns) of each layer.

        ncnn computes a layer's output only when it is extracted, so each output is extracted in turn and timed. The
        times are estimates, because the extraction itself adds to each of them. The outputs are not kept, so that ncnn
        frees blobs and computes layers in place as in an inference.
        """
        timed = []
        begin = time.monotonic_ns()
        allocator = self._ncnn.UnlockedPoolAllocator()
        with self._net.create_extractor() as extractor:
            # Else blobs of many sizes would stay in the net's pool, and make later inferences 6 to 12 % slower.
            extractor.set_blob_allocator(allocator)
            for name, mat in self._mats:
                extractor.input(name, mat)
            for layer in self._layers:
                if layer.type in ("Input", "Split") or not layer.writes:
                    continue
                start = time.monotonic_ns()
                extractor.extract(layer.writes[0], RAW)
                timed.append((layer.name, layer.type, self._device, time.monotonic_ns() - start))
        return time.monotonic_ns() - begin, timed

    def another(self) -> "Ncnn":
        """Return a second engine that shares the loaded model. Another thread may run it at the same time."""
        other = Ncnn()
        other.__dict__.update(self.__dict__, _mats=[])
        return other

    def describe(self) -> Dict[str, Any]:
        settings = self._net.opt
        used = {key: bool(getattr(settings, members[0], False)) for key, members in _SWITCHES.items()}
        return {"version": str(self._ncnn.__version__), "providers": [self._device], "settings": used}


def _shape(layer: Optional[Layer]) -> List[Optional[int]]:
    """Return an input's shape, such as [3, 224, 224] for channels, height and width. An unknown size is None.

    The sizes are parameters 2 (channels), 1 (height) and 0 (width) of `layer`. Leading sizes that are unknown are left
    out, so a vector has only a width.
    """
    if layer is None:
        return [None, None, None]
    sizes = [int(layer.parameters.get(key, "0") or 0) for key in (2, 1, 0)]
    rank = len(sizes) - next((place for place, size in enumerate(sizes) if size > 0), 0)  # a vector has only a width
    return [size if size > 0 else None for size in sizes[-rank:]]
