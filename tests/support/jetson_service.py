"""As much of jetson-stats' service as its client asks of it. Run as a script, with Python's own library alone.

python jetson_service.py SOCKET VERSION [MANNER]: it prints "ready" when it can be asked. Manners:
steady; stale (its first answer for ever); mute (accepts and never answers); empty (no process uses the GPU, and the
memory controller cannot be read).
"""

import base64
import queue
import sys
import threading
import time
from multiprocessing.managers import BaseManager

KEY = str(base64.b64encode(b"Raffaello Bonghi")).encode()
INTERVAL_S = 0.1
# PID, user, GPU, type, priority, state, CPU %, memory, GPU memory in KiB, name.
PROCESSES = [
    [4711, "u", "I", "Graphic", 20, "S", 1.0, 9, 757_760, "python3"],
    [4711, "u", "I", "Graphic", 20, "S", 1.0, 9, 1024, "x"],
]
# jtop/core/memory.py, read_emc: clocks in kHz, and the share of the time in percent.
EMC = {"cur": 2_133_000, "max": 3_199_000, "min": 204_000, "override": 0, "val": 0, "online": True}


class Manager(BaseManager):
    pass


def main():
    socket, version, manner = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["steady"])[0]
    asked, data, event = queue.Queue(), {}, threading.Event()
    Manager.register("get_queue", callable=lambda: asked)
    Manager.register("sync_data", callable=lambda: data)
    Manager.register("sync_event", callable=lambda: event)
    server = Manager(address=socket, authkey=KEY).get_server()
    threading.Thread(target=_serve, args=(asked, data, event, version, manner), daemon=True).start()
    print("ready", flush=True)
    server.serve_forever()


def _serve(asked, data, event, version, manner):
    board = {"hardware": {"Model": "NVIDIA Jetson"}, "cpu": {}}
    answer = {"version": version, "interval": 1.0, "board": board, "memory": "", "fan": {}, "jc": False}
    data.update(_stats(0.0, manner))
    started = time.monotonic()
    while True:
        try:
            control = asked.get(timeout=INTERVAL_S)
        except queue.Empty:
            control = None
        if control is not None and "init" in control:
            asked.put(control)
        elif control and "interval" in control and manner != "mute":
            asked.put({"init": answer})
        if manner != "stale":
            data.update(_stats(time.monotonic() - started, manner))
        event.set()
        time.sleep(INTERVAL_S)


def _stats(uptime_s, manner):
    processes = [] if manner == "empty" else PROCESSES
    memory = {} if manner == "empty" else {"EMC": EMC}
    return {"uptime": 1000.0 + uptime_s, "gpu": {}, "mem": memory, "fan": {}, "processes": processes}


if __name__ == "__main__":
    main()
