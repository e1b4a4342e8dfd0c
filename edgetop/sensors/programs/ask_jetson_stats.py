"""Query jetson-stats and print a JSON line for each new answer, until standard input is closed.

This program runs in the interpreter that has jetson-stats, which is Python 3.8 (JetPack 5) or later and may not have
edgetop. The client is documented at https://rnext.it/jetson_stats.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, TextIO

INTERVAL_S = 1.0  # shorter intervals are unreliable (rbonghi/jetson_stats#414)
PID, GPU_MEMORY_KIB = 0, 8  # positions in a row of `processes`


def main() -> None:
    out = _take_stdout()
    threading.Thread(target=_end_with_edgetop, daemon=True).start()
    try:
        _ask(out)
    except BaseException as error:
        _say(out, {"error": str(error) or type(error).__name__})
    os._exit(1)  # the client's threads may wait for ever


def _take_stdout() -> TextIO:
    """Return a text file that writes to this program's standard output.

    All other output of the process, such as messages of jetson-stats, is discarded.
    """
    out = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return out


def _end_with_edgetop() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def _ask(out: TextIO) -> None:
    from jtop import jtop  # noqa: PLC0415  its output must be discarded, and a failure reported

    with jtop(interval=INTERVAL_S) as client:
        while client.ok():
            _say(out, _answer(client))
    _say(out, {"error": "its service has stalled"})


def _answer(client: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"uptime_s": client.uptime.total_seconds()}
    processes = client.processes
    if processes is not None:
        table: dict[int, int] = {}
        for row in processes:
            table[row[PID]] = table.get(row[PID], 0) + row[GPU_MEMORY_KIB]
        answer["gpu_kib"] = table
    memory = getattr(client, "memory", None)  # since 4.2
    emc = memory.get("EMC") if memory is not None else None  # left out if the service cannot read it
    if emc is not None:
        answer["emc_khz"], answer["emc_max_khz"] = emc.get("cur"), emc.get("max")
    return answer


def _say(out: TextIO, answer: dict[str, Any]) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
