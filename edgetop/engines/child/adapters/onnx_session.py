"""The session options of ONNX Runtime: optimisation, threads, memory, config entries and custom operators.

Keys of config entries: include/onnxruntime/core/session/onnxruntime_session_options_config_keys.h. ONNX Runtime itself
ignores a key that it does not know. For most switches, it treats every value other than "1" as "0".
"""

from __future__ import annotations

import difflib
import glob
import os
import re
from typing import Any, Dict, List, Set, Tuple

from ..engine_error import EngineError, one_line

# Values of `--optimize`, as GraphOptimizationLevel in onnxruntime_c_api.h; 3 is everything, as without the option.
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")

_SWITCHES = frozenset(
    (
        "session.disable_prepacking",
        "session.use_env_allocators",
        "session.set_denormal_as_zero",
        "session.disable_quant_qdq",
        "session.disable_double_qdq_remover",
        "session.enable_quant_qdq_cleanup",
        "optimization.enable_gelu_approximation",
        "optimization.enable_cast_chain_elimination",
        "session.disable_aot_function_inlining",
        "session.force_spinning_stop",
        "session.use_device_allocator_for_initializers",
        "session.inter_op.allow_spinning",
        "session.intra_op.allow_spinning",
        "session.use_ort_model_bytes_directly",
        "session.use_ort_model_bytes_for_initializers",
        "session.qdqisint8allowed",
        "session.x64quantprecision",
        "session.strict_shape_type_inference",
        "session.allow_released_opsets_only",
        "session.debug_layout_transformation",
        "session.disable_cpu_ep_fallback",
        "session.use_memory_mapped_ort_model",
        "session.save_external_prepacked_constant_initializers",
        "session.enable_dq_matmulnbits_fusion",
        "session.disable_model_compile",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
    )
)
# Documented keys whose values are no switches, and of which a compiler may leave no whole string in the library.
_OTHERS = frozenset(("session.model_external_initializers_file_folder_path", "session.load_model_format"))
# Keys that the C API itself uses for what has an option of its own.
_OWN_OPTIONS = {
    "session.intra_op_num_threads": "--threads",
    "session.inter_op_num_threads": "--inter-op-threads",
    "session.execution_mode": "--execution-mode",
    "session.graph_optimization_level": "--optimize",
    "session.enable_cpu_mem_arena": "--no-arena",
    "session.enable_profiling": "--profile-every",
}
_CHUNK = 2**20  # bytes of the library that are searched at once; a key is far shorter
_KEY = re.compile(rb"(?<=\0)(?:session|optimization|memory|mlas)\.[a-z0-9_.]{3,120}(?=\0)")


def configure(onnxruntime: Any, options: Any, spec: Dict[str, Any]) -> None:
    """Set what the user asks for in `options`, the SessionOptions of a session.

    `onnxruntime` is the runtime's module. `spec` has the fields of `EngineSpec` by name. Raises EngineError("input") if
    ONNX Runtime does not know an option, or cannot load a library of custom operators.
    """
    asked = spec.get("session") or {}
    if asked.get("optimize") is not None:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[asked["optimize"]])
    if asked.get("inter_threads") is not None:
        options.inter_op_num_threads = asked["inter_threads"]
    if asked.get("execution"):
        options.execution_mode = getattr(onnxruntime.ExecutionMode, "ORT_%s" % asked["execution"].upper())
    if not asked.get("arena", True):
        options.enable_cpu_mem_arena = False
    libraries = asked.get("custom_ops") or []
    for key, value in (asked.get("config") or {}).items():
        _check(onnxruntime, key, value, takes_any=bool(libraries))
        try:
            options.add_session_config_entry(key, value)
        except Exception as error:  # a key or a value that is too long
            text = "--session-option %s: %s" % (one_line(key, 80), one_line(error))
            raise EngineError("input", text) from None
    for library in libraries:
        if not os.path.isfile(library):
            raise EngineError("input", "--custom-ops %s: no such file" % library, "give the path of a shared library")
        try:
            options.register_custom_ops_library(library)
        except Exception as error:  # of ONNX Runtime's own types
            text = "--custom-ops %s: ONNX Runtime cannot load it: %s" % (library, one_line(error))
            raise EngineError("input", text, "it needs a library built for this version and this machine") from None


def settings(spec: Dict[str, Any]) -> Dict[str, str]:
    """Return the session options that the user has set, by name, for the recording. All others are left out.

    `spec` has the fields of `EngineSpec` by name.
    """
    asked = spec.get("session") or {}
    found: List[Tuple[str, Any]] = [
        ("optimize", asked.get("optimize")),
        ("inter_op_threads", asked.get("inter_threads")),
        ("execution_mode", asked.get("execution") or None),
        ("arena", None if asked.get("arena", True) else "off"),
        *sorted((asked.get("config") or {}).items()),
        ("custom_ops", ",".join(os.path.basename(one) for one in asked.get("custom_ops") or []) or None),
    ]
    return {name: one_line(str(value), 200) if str(value) else "" for name, value in found if value is not None}


def option_words(spec: Dict[str, Any]) -> str:
    """Return the config entries as the user wrote them, such as `--session-option a=1`, or "" if there are none."""
    entries = ((spec.get("session") or {}).get("config") or {}).items()
    return one_line(" ".join("--session-option %s=%s" % entry for entry in entries), 200) if entries else ""


def _check(onnxruntime: Any, key: str, value: str, *, takes_any: bool) -> None:
    """Raise EngineError("input") if the config entry `key` cannot be set to `value`.

    A switch can only be set to "0" or "1". An entry for which edgetop has an option cannot be set. An entry that ONNX
    Runtime does not know can be set only if `takes_any` is True, since a library of custom operators may read it.
    """
    own = _OWN_OPTIONS.get(key)
    if own:
        raise EngineError("input", "--session-option %s: has an option of its own" % key, "use %s" % own)
    if key in _SWITCHES:
        if value not in ("0", "1"):
            raise EngineError("input", "--session-option %s=%s: is 0 or 1" % (key, one_line(value, 80)))
        return
    if takes_any or key in _OTHERS or key.startswith("ep."):  # those of providers, which are libraries of their own
        return
    known = _known_keys(onnxruntime)
    if known and key not in known:
        close = difflib.get_close_matches(key, sorted(known | _SWITCHES), n=1)
        text = "--session-option %s: ONNX Runtime %s has no such option"
        advice = "did you mean %s?" % close[0] if close else "see onnxruntime_session_options_config_keys.h"
        raise EngineError("input", text % (one_line(key, 80), onnxruntime.__version__), advice)


def _known_keys(onnxruntime: Any) -> "frozenset[str]":
    """Return the keys of config entries that this ONNX Runtime knows, or an empty set if its library is not found.

    They are the strings in the library that look like keys. The library is read in pieces, so that it adds nothing to
    the memory of the engine.
    """
    folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
    found: Set[str] = set()
    for path in glob.glob(os.path.join(glob.escape(folder), "onnxruntime_pybind11_state*.so")):
        with open(path, "rb") as file:
            tail = b""
            while True:
                piece = file.read(_CHUNK)
                if not piece:
                    break
                found.update(match.decode("ascii") for match in _KEY.findall(tail + piece))
                tail = piece[-256:]
    return frozenset(found)
