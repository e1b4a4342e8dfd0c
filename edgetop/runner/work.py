"""What the operators of the running model compute and move, from the model's file.

Read on a thread of low priority while the model warms up. It tells nothing but numbers that
stand beside the measured ones: where it fails, or is not done in time, these are not known.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.runner.fingerprint import NICENESS
from edgetop.session.manifest import Model, TensorInfo
from edgetop.session.operators import Burst, OperatorInfo

if TYPE_CHECKING:
    from edgetop.models.inspection import Inspection, RuntimeShapes

PATIENCE_S = 0.5  # of the first burst


class Work:
    def __init__(self, model: Model, ask: "Callable[[], RuntimeShapes | None]" = lambda: None) -> None:
        """`ask` is called, on its thread, for shapes that do not follow from the file."""
        self._model = model
        self._ask = ask
        self._inputs: Sequence[TensorInfo] = ()
        self._inspection: Inspection | None = None
        self._precision: str | None = None
        self._data_dependent: dict[str, int] = {}
        self._patience_s = PATIENCE_S
        self._joined: tuple[tuple[OperatorInfo, ...], tuple[OperatorInfo, ...]] = ((), ())  # of the last burst
        self._thread = threading.Thread(target=self._read, name="work", daemon=True)

    def begin(self, inputs: Sequence[TensorInfo]) -> None:
        """`inputs`: with the shapes in which the model runs."""
        self._inputs = inputs
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Wait until it is read, but not for ever."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    @property
    def precision(self) -> str | None:
        """On which dtype most of it is computed; None: not known (yet)."""
        return self._precision

    @property
    def data_dependent(self) -> dict[str, int]:
        """The types of operators whose work depends on values, and how many there are; nothing until it is known."""
        return self._data_dependent

    def joined_to(self, bursts: Iterable[Burst]) -> tuple[Burst, ...]:
        """The same bursts; their operators with what is known of their work."""
        return tuple(replace(burst, infos=self._known(burst.infos)) for burst in bursts)

    def _known(self, infos: tuple[OperatorInfo, ...]) -> tuple[OperatorInfo, ...]:
        self.finish(self._patience_s)
        self._patience_s = 0.0
        if self._inspection is None:
            return infos
        if self._joined[0] is not infos:
            self._joined = infos, self._with_work(infos)
        return self._joined[1]

    def _with_work(self, infos: tuple[OperatorInfo, ...]) -> tuple[OperatorInfo, ...]:
        from edgetop.models.executed import with_work  # noqa: PLC0415  imported by `_read`, off this thread

        assert self._inspection
        try:
            return with_work(self._inspection, infos)
        except Exception:  # noqa: BLE001  a model that nobody has foreseen must not end its session
            return infos

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # of this thread alone, on Linux
        with contextlib.suppress(Exception):  # as above: the engine has loaded it, and says what it says
            from edgetop.models.executed import main_dtype  # noqa: PLC0415  not needed where nothing is profiled
            from edgetop.models.graph import data_dependent  # noqa: PLC0415  as below

            self._inspection = self._inspected()
            self._precision = main_dtype(self._inspection.operators)
            self._data_dependent = data_dependent(self._inspection.declared)

    def _inspected(self) -> "Inspection":
        from edgetop.models.inspection import inspected, read_model  # noqa: PLC0415  as above

        declared = read_model(Path(self._model.path), str(self._model.format))
        return inspected(declared, {tensor.name: tensor.shape for tensor in self._inputs}, self._ask)
