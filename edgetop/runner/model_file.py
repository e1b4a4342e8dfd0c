"""Reads of the model's file during its session: its SHA-256, and the work of its operators.

Both run on threads of low priority, and only once the model is loaded: reading the file first would warm the page cache
and make the load look faster than a user's first one is.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetop.runner.session_state import SessionState
from edgetop.session.manifest import Model, TensorInfo
from edgetop.session.operators import Burst, OperatorInfo

if TYPE_CHECKING:
    from edgetop.models.inspection import Inspection, RuntimeShapes

CHUNK_BYTES = 64 * 1024  # Python 3.11's own digest holds its lock for the time that this takes
LARGE_BYTES = 64 * 1024 * 1024  # from here on speed counts more than memory
NICENESS = 19
PATIENCE_S = 0.5  # of the first burst
FINGERPRINT_PATIENCE_S = 1.0


def _lower_priority() -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # of this thread alone, on Linux


def sha256(path: str) -> str | None:
    """Return the hexadecimal digest of a file; None: it cannot be read, and may be gone by now."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123  a path from the manifest
        digest = _empty_digest(os.fstat(file.fileno()).st_size)
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
        return str(digest.hexdigest())
    return None


def _empty_digest(file_bytes: int) -> Any:
    """Python's own (3.12, 3.11); for large files that of hashlib, which is faster, and loads 4 MiB of OpenSSL."""
    if file_bytes < LARGE_BYTES:
        for name in ("_sha2", "_sha256"):
            with contextlib.suppress(ImportError):
                return import_module(name).sha256()
    return import_module("hashlib").sha256()


class Work:
    """The FLOPs and bytes of the model's operators, computed from its file during the warm-up.

    Its numbers only stand beside the measured ones: where it fails or is late, they are unknown.
    """

    def __init__(self, model: Model, ask: "Callable[[], RuntimeShapes | None]" = lambda: None) -> None:
        """`ask` is called, on its thread, for shapes that do not follow from the file."""
        self._model = model
        self._ask = ask
        self._inputs: Sequence[TensorInfo] = ()
        self._inspection: Inspection | None = None
        self.precision: str | None = None  # the dtype on which most of it is computed; None: not read (yet)
        # The types of operators whose work depends on values, and how many there are; empty until the file is read.
        self.data_dependent: dict[str, int] = {}
        self._patience_s = PATIENCE_S
        self._joined: tuple[tuple[OperatorInfo, ...], tuple[OperatorInfo, ...]] = ((), ())  # of the last burst
        self._thread = threading.Thread(target=self._read, name="work", daemon=True)

    def begin(self, inputs: Sequence[TensorInfo]) -> None:
        """`inputs`: with the shapes in which the model runs."""
        self._inputs = inputs
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Wait until the file is read, for a limited time."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def joined_to(self, bursts: Iterable[Burst]) -> tuple[Burst, ...]:
        """The same bursts; their operators with the work that the file shows."""
        return tuple(replace(burst, infos=self._with_work(burst.infos)) for burst in bursts)

    def _with_work(self, infos: tuple[OperatorInfo, ...]) -> tuple[OperatorInfo, ...]:
        self.finish(self._patience_s)
        self._patience_s = 0.0
        if self._inspection is None:
            return infos
        from edgetop.models.executed import with_work  # noqa: PLC0415  imported by `_read`, off this thread

        if self._joined[0] is not infos:
            joined = infos
            with contextlib.suppress(Exception):  # a model that nobody has foreseen must not end its session
                joined = with_work(self._inspection, infos)
            self._joined = infos, joined
        return self._joined[1]

    def _read(self) -> None:
        _lower_priority()
        with contextlib.suppress(Exception):  # as above: the engine has loaded it, and says what it says
            from edgetop.models.executed import main_dtype  # noqa: PLC0415  not needed where nothing is profiled
            from edgetop.models.graph import data_dependent  # noqa: PLC0415
            from edgetop.models.inspection import inspected, read_model  # noqa: PLC0415

            declared = read_model(Path(self._model.path), str(self._model.format))
            shapes = {tensor.name: tensor.shape for tensor in self._inputs}
            self._inspection = inspected(declared, shapes, self._ask)
            self.precision = main_dtype(self._inspection.operators)
            self.data_dependent = data_dependent(self._inspection.declared)


class ModelFiles:
    """Reads the file of a session's model, and of B's in an A/B session, for the session's state."""

    def __init__(self, session_state: SessionState, ask: "Callable[[], RuntimeShapes | None]") -> None:
        """`ask`: as that of `Work`."""
        self._state = session_state
        self._hashing: list[threading.Thread] = []
        self._hashed: dict[int, str] = {}  # digests that were not reported yet, of the model (0), and of B's (1)
        self.work = Work(session_state.manifest.model, ask)

    def begin(self, inputs: Sequence[TensorInfo]) -> None:
        """The model is loaded. `inputs`: with the shapes in which it runs."""
        self._begin_hash(0, self._state.manifest.model.path)
        if self._state.profiles:
            self.work.begin(inputs)

    def begin_other(self) -> None:
        """B's model is loaded."""
        assert self._state.manifest.ab
        self._begin_hash(1, self._state.manifest.ab.variants[1].model.path)

    def _begin_hash(self, side: int, path: str) -> None:
        def work() -> None:
            _lower_priority()
            if digest := sha256(path):
                self._hashed[side] = digest

        self._hashing.append(threading.Thread(target=work, name="fingerprint", daemon=True))
        self._hashing[-1].start()

    def report(self) -> None:
        """Report what has been read by now."""
        self._report_digests()
        self._state.precision_known(self.work.precision)
        self._state.data_dependent(self.work.data_dependent)

    def finish(self) -> None:
        """Wait for the SHA-256, for a limited time, and report it."""
        for thread in self._hashing:
            thread.join(FINGERPRINT_PATIENCE_S)
        self._report_digests()

    def _report_digests(self) -> None:
        for side in tuple(self._hashed):
            self._state.set_sha256(self._hashed.pop(side), side)
