"""ONNX Runtime, any version: a session that is profiled from its start, in a helper process.

Session-level profiling cannot be turned off and on again, and one that is left on ends at a
million events (onnxruntime/core/common/profiler.h, max_num_events_) and holds them in memory.
So each burst makes a session, runs it and drops it.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict

from ..inputs import bound
from . import Allowance, Profile
from .interference import measured
from .onnx_trace import add_runs, make_folder, read_trace

WARMUP_RUNS = 2  # the first allocates, the second runs in what the first has allocated


class Service:
    way = "a profiled session in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        adapter.import_runtime()  # now, and not in the first burst, for which the engine waits
        self._spec = spec
        self._make = type(adapter)
        self._adapter: Any = None
        self._call: Callable[[], object]
        self._folder = ""

    def make_ready(self) -> None:
        """Open a session of which every run is profiled, the warm-up too."""
        self._folder = make_folder()
        try:
            self._adapter = self._make()
            self._call = bound(self._adapter, dict(self._spec, profile_prefix=os.path.join(self._folder, "session")))
            for _ in range(WARMUP_RUNS):
                self._call()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def burst(self, allowance: Allowance) -> Profile:
        """Run what is allowed, and end the session."""
        profile = Profile()
        try:
            interference = []
            while allowance.takes_another():
                interference.append(measured(self._call)[2])
            add_runs(profile, read_trace(self._adapter.end_profiling()), interference)
        finally:
            self._adapter = None
            del self._call
            shutil.rmtree(self._folder, ignore_errors=True)
        return profile
