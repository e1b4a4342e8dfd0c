"""The inference runtimes that are installed and load, and what they can run on.

They are imported in a process of their own: here they would stay in memory, and some start threads.
"""

import json
import subprocess
from typing import Any

from edgetop.doctor.check import Check, Facts, ok, problem, warning
from edgetop.engines.spawn import CHILD
from edgetop.formatting import clean
from edgetop.sensors.root import is_compatible

NAME = "runtimes"
TIMEOUT_S = 60.0  # a cold start from a slow SD card
SUFFIX = "ExecutionProvider"
REMOTE = {"Azure"}  # in the wheels of PyPI; it runs nothing here


def check(facts: Facts) -> list[Check]:
    try:
        inventory = read_inventory(facts.python)
    except (OSError, ValueError) as error:
        advice = "name an interpreter that works with --engine-python"
        return [problem(NAME, f"{clean(facts.python)} cannot be asked: {clean(str(error))}", advice)]
    return judge(inventory, facts)


def read_inventory(python: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Return the output of `child/__main__.py --inventory` in that Python. Raises OSError or ValueError."""
    try:
        done = subprocess.run(  # noqa: S603  the user's own interpreter and our own file
            [python, str(CHILD), "--inventory"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"it said nothing for {timeout_s:g} s") from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    try:
        inventory = json.loads(lines[-1] if lines else "")  # what a runtime prints comes before
        return {key: inventory[key] for key in ("python", "numpy", "runtimes")}
    except (ValueError, KeyError, TypeError):
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(words[-1] if words else f"exit status {done.returncode}") from None


def judge(inventory: dict[str, Any], facts: Facts) -> list[Check]:
    runtimes: dict[str, Any] = inventory["runtimes"]
    loads = {name: found for name, found in runtimes.items() if not found["error"]}
    broken = {name: found["error"] for name, found in runtimes.items() if found["error"]}
    finds = []
    for name, found in loads.items():
        providers = ", ".join(_local(found["providers"]))
        where = f" on {clean(providers)}" if providers else ""
        finds.append(f"{name} {clean(str(found['version'] or ''))}".rstrip() + where)
    finds += (f"{name} does not load: {clean(error)}" for name, error in broken.items())
    finding = f"{'; '.join(finds) or 'none'} (Python {clean(str(inventory['python']))})"
    if inventory["numpy"] is None or inventory["numpy"]["error"]:
        return [problem(NAME, f"no numpy that loads for {clean(facts.python)}", None, "pip install numpy")]
    if not loads:
        advice = "or name an interpreter that has one with --engine-python"
        return [problem(NAME, finding, advice, "pip install 'edgetop[onnx]'  or  'edgetop[tflite]'")]
    if broken:
        return [warning(NAME, finding, "reinstall what does not load, or remove it")]
    # A Jetson whose ONNX Runtime has no GPU measures its CPU, and few mean to.
    onnx = loads.get("onnxruntime")
    if onnx and is_compatible(facts.root, "nvidia,tegra") and _local(onnx["providers"]) == ["CPU"]:
        advice = "this wheel has no GPU build: JetPack's Python has one (jetson-ai-lab), named with --engine-python"
        return [warning(NAME, finding, advice, "edgetop doctor --engine-python /usr/bin/python3")]
    return [ok(NAME, finding)]


def _local(providers: list[str]) -> list[str]:
    return [name for provider in providers if (name := provider.removesuffix(SUFFIX)) not in REMOTE]
