"""Read the model's file during its session, for its SHA-256 and for the work of its operators.

Threads of low priority do this, once the model is loaded. If the file were read earlier, it would be in the page cache,
and the load would look faster than on a user's machine.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from edgetop.runner.session_state import SessionState
from edgetop.session.manifest import Model, TensorInfo
from edgetop.session.operators import Burst, OperatorInfo

if TYPE_CHECKING:
    from edgetop.models.inspection import Inspection, RuntimeShapes

CHUNK_BYTES = 64 * 1024  # small, since Python 3.11's own digest holds the interpreter's lock for a whole chunk
LARGE_BYTES = 64 * 1024 * 1024  # for larger files, speed counts more than memory
NICENESS = 19
PATIENCE_S = 0.5  # how long the first burst waits for the file to be read
FINGERPRINT_PATIENCE_S = 1.0  # how long the end of a session waits for a file that is still read or hashed


def _lower_priority() -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # on Linux this affects only the calling thread


def sha256(path: str) -> str | None:
    """Return the SHA-256 of a file as hexadecimal text, or None if the file cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123  a path from the manifest
        digest = _empty_digest(os.fstat(file.fileno()).st_size)
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
        return digest.hexdigest()
    return None


class Digest(Protocol):
    """The interface of a hash object of `hashlib`, for which Python has no public type."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def _empty_digest(file_bytes: int) -> Digest:
    """Return a new SHA-256 object for a file of `file_bytes`."""
    # hashlib is faster, but takes 4 MiB, because it loads OpenSSL. `_sha2` is in Python 3.12, `_sha256` in 3.11.
    if file_bytes < LARGE_BYTES:
        for name in ("_sha2", "_sha256"):
            with contextlib.suppress(ImportError):
                return cast("Digest", import_module(name).sha256())
    return cast("Digest", import_module("hashlib").sha256())


class Work:
    """Computes the FLOPs and bytes of the model's operators from the model's file, on a thread during the warm-up.

    FLOPs and bytes that are not computed within a time limit stay unknown.
    """

    def __init__(self, model: Model, ask: "Callable[[], RuntimeShapes | None]" = lambda: None) -> None:
        """Prepare to read the file of `model`.

        `ask` asks the runtime for tensor shapes that do not follow from the file. The thread that reads the file calls
        `ask`.
        """
        self._model = model
        self._ask = ask
        self._inputs: Sequence[TensorInfo] = ()
        self._inspection: Inspection | None = None
        self.precision: str | None = None  # dtype of most of the computation; None until the file is read
        # Number of operators of each type whose work depends on values; empty until the file is read.
        self.data_dependent: Mapping[str, int] = {}
        self.deciding: Mapping[
            str, frozenset[str]
        ] = {}  # names of the inputs that decide about them, by type, if known
        self._patience_s = PATIENCE_S
        self._has_profiles = True
        # The operators of the last burst, without and with their work.
        self._joined: tuple[tuple[OperatorInfo, ...], tuple[OperatorInfo, ...]] = ((), ())
        self._thread = threading.Thread(target=self._read, name="work", daemon=True)

    def begin(self, inputs: Sequence[TensorInfo], *, has_profiles: bool = True) -> None:
        """Start to read the file. `inputs` are the model's inputs with the shapes that the session uses.

        `has_profiles` says that operators are timed in the session. If not, only `data_dependent` and `deciding` are
        set.
        """
        self._inputs, self._has_profiles = inputs, has_profiles
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Wait until the file is read, for at most `timeout_s` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def joined_to(self, bursts: Iterable[Burst]) -> tuple[Burst, ...]:
        """Return `bursts` (groups of timed inferences) with the FLOPs and bytes of operators added, if known."""
        return tuple(replace(burst, infos=self._with_work(burst.infos)) for burst in bursts)

    def _with_work(self, infos: tuple[OperatorInfo, ...]) -> tuple[OperatorInfo, ...]:
        self.finish(self._patience_s)
        self._patience_s = 0.0
        if self._inspection is None:
            return infos
        from edgetop.models.executed import with_work  # noqa: PLC0415  `_read` has imported it on its thread

        if self._joined[0] is not infos:
            joined = infos
            with contextlib.suppress(Exception):  # an unusual model must not end its session
                joined = with_work(self._inspection, infos)
            self._joined = infos, joined
        return self._joined[1]

    def _read(self) -> None:
        _lower_priority()
        with contextlib.suppress(Exception):  # an unusual model, which the engine has loaded all the same
            from edgetop.models.deciding_inputs import deciding_inputs  # noqa: PLC0415
            from edgetop.models.inspection import inspected, read_model  # noqa: PLC0415

            declared = read_model(Path(self._model.path), str(self._model.format))
            if not self._has_profiles:
                deciding = deciding_inputs(declared)
                self.deciding, self.data_dependent = deciding.inputs, deciding.types
                return
            from edgetop.models.executed import main_dtype  # noqa: PLC0415  not needed if nothing is profiled

            shapes = {tensor.name: tensor.shape for tensor in self._inputs}
            self._inspection = inspected(declared, shapes, self._ask)
            self.precision = main_dtype(self._inspection.operators)
            deciding = deciding_inputs(self._inspection.declared)
            self.deciding, self.data_dependent = deciding.inputs, deciding.types


class ModelFiles:
    """Reads the model files of a session (two in an A/B session) and reports the results to the session's state."""

    def __init__(self, session_state: SessionState, ask: "Callable[[], RuntimeShapes | None]") -> None:
        """Prepare to read the files of the session's models.

        `ask` asks the runtime for tensor shapes that do not follow from a file.
        """
        self._state = session_state
        self._hashing: list[threading.Thread] = []
        self._hashed: dict[int, str] = {}  # digests that were not reported yet, by side: 0 is the model, 1 model B
        self.work = Work(session_state.manifest.model, ask)

    def begin(self, inputs: Sequence[TensorInfo]) -> None:
        """Start to read the model's file.

        Call this when the model is loaded, with the input shapes that the session uses.
        """
        self._begin_hash(0, self._state.manifest.model.path)
        self.work.begin(inputs, has_profiles=self._state.profiles)

    def begin_other(self) -> None:
        """Start to read the file of model B of an A/B session. Call this when model B is loaded."""
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
        """Pass the results so far to the session's state."""
        self._report_digests()
        self._state.precision_known(self.work.precision)
        self._state.data_dependent(self.work.data_dependent, self.work.deciding)

    def finish(self) -> None:
        """Wait a limited time until the files are read and hashed, and report what is known."""
        for thread in self._hashing:
            thread.join(FINGERPRINT_PATIENCE_S)
        self.work.finish(FINGERPRINT_PATIENCE_S)
        self.report()

    def _report_digests(self) -> None:
        for side in tuple(self._hashed):
            self._state.set_sha256(self._hashed.pop(side), side)
