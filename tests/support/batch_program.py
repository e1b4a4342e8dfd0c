"""The engine's program over several specs in one process, for interpreters in which importing a runtime takes long.

Run as a script by any Python that the child runs on: specs are lines of JSON on stdin, the
frames of each go to stdout, with a frame of kind `END` after them.
"""

import importlib.util
import json
import os
import sys

END = 255


def main(child):
    spec = importlib.util.spec_from_file_location(
        "edgetop_engine", child + "/__init__.py", submodule_search_locations=[child]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["edgetop_engine"] = package
    spec.loader.exec_module(package)
    from edgetop_engine import message_frames as frames
    from edgetop_engine.child_program import run_model
    from edgetop_engine.loop import Control
    from edgetop_engine.record_outlet import Outlet

    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what a runtime prints must not stand between frames
        for line in sys.stdin:
            outlet = Outlet()
            run_model(json.loads(line), outlet, Control())
            for kind, payload in [*outlet.take(), (END, b"")]:
                out.write(frames.HEADER.pack(frames.MAGIC, frames.VERSION, kind, len(payload)) + payload)


if __name__ == "__main__":
    main(sys.argv[1])
