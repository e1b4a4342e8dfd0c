"""Plug-ins for tests: a folder on PYTHONPATH that looks like an installed package with an engine."""

from pathlib import Path

MISBEHAVING = """
import json
import os
import sys
import time


class Speechless(Exception):
    def __str__(self):
        raise self


class Engine:
    interface = int(os.environ.get("TEST_INTERFACE", "1"))

    def _maybe(self, where):
        what, _, at = os.environ.get("TEST_PLUGIN", "").partition("@")
        if at != where:
            return
        if what == "raise":
            raise KeyError("boom")
        if what == "interrupt":
            raise KeyboardInterrupt
        if what == "speechless":
            raise Speechless
        if what == "bytes":
            raise OSError(2, "no such file", "caf\\udce9.odd")
        if what == "exit":
            sys.exit(5)
        if what == "vanish":
            os._exit(7)
        if what == "crash":
            import ctypes

            ctypes.string_at(0)
        if what == "print":
            print("a line with \\x1b[31mred")
        if what == "fork" and os.fork() == 0:
            print("left behind:", os.getpid(), flush=True)
            time.sleep(300)
            os._exit(0)
        if what == "close":
            os.closerange(3, 65_536)  # descriptors keep the numbers that they have in the process of the tests
        if what == "hang":
            time.sleep(300)

    @staticmethod
    def unusable():
        Engine._maybe(None, "unusable")
        return ""

    def open(self, model, options):
        self._maybe("open")

    def inputs(self):
        self._maybe("inputs")
        return json.loads(os.environ.get("TEST_INPUTS", '[["x", [1, 4], "float32"]]'))

    def bind(self, feeds):
        self._maybe("bind")
        (x,) = feeds.values()
        self.runs = 0
        if "TEST_FEED" in os.environ:
            feeds[os.environ["TEST_FEED"]]

        def run():
            self.runs += 1
            self._maybe("run")
            if self.runs > 20:
                self._maybe("later")
            return x * 2

        return run

    def outputs(self, result):
        self._maybe("outputs")
        return [("y", result)]

    def describe(self):
        self._maybe("describe")
        return json.loads(os.environ.get("TEST_DESCRIPTION", '{"version": "1.2", "settings": {"mode": "fast"}}'))

    if "TEST_PROFILE" in os.environ:

        def profile(self):
            return json.loads(os.environ["TEST_PROFILE"])
"""


def install(folder: Path, module: str, code: str, *, engine: str = "odd", suffix: str = "odd") -> Path:
    """Lay out an installed package in `folder`, and return it, for PYTHONPATH."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    entry = f"{module}:Engine\n"
    (info / "entry_points.txt").write_text(
        f"[edgetop.engines]\n{engine} = {entry}[edgetop.model_suffixes]\n{suffix} = {entry}"
    )
    return folder
