"""Support for runs that nobody watches: rotation, a limit on disk space, messages to systemd.

The module is loaded before the engine starts, so functions that need the analysis import it late.
"""

import os
import socket
import subprocess
import threading
import uuid
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from edgetop.cli.running import session_parts
from edgetop.cli.running.live_session import LiveSession, Observer
from edgetop.cli.running.run_request import RunRequest
from edgetop.engines.formats import ModelFile
from edgetop.recording.quota import Quota
from edgetop.recording.recorder import BackgroundRecorder, Recorder
from edgetop.recording.session_folder import session_folder
from edgetop.recording.table_writer import ChildTableWriter
from edgetop.runner.rotation import Following
from edgetop.session.event_kinds import Remark
from edgetop.session.manifest import Manifest

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis

QUOTA_EVERY_S = 300.0
SYSTEMCTL_S = 5.0


def following(request: RunRequest, model: ModelFile, session: LiveSession, manifest: Manifest) -> Following:
    """Create the next recording of a run with `--rotate`, and return it.

    `manifest` describes the present session. The next recording begins with a copy of it. With `-o PATH`, the
    recordings are called PATH-2, PATH-3 and so on. Raises InputError if the folder cannot be used.
    """
    given = request.keeping.output
    if given is None:
        unnamed = session_parts.recording_folder(request, model)
        assert unnamed
        folder = unnamed
    else:
        first, number = session_folder(given).absolute(), 2
        while (folder := session_folder(first.with_name(f"{first.stem}-{number}"))).exists():
            number += 1
    fresh = replace(manifest, id=str(uuid.uuid4()), name=folder.stem, state="live")
    recorder = Recorder(folder, fresh, session_parts.retention(request.keeping), ChildTableWriter())
    taken = partial(session.follow, recorder.handle)
    return Following(folder.stem, fresh.id, BackgroundRecorder(recorder), taken)


def keep_room(session: LiveSession, quota_bytes: int, stack: ExitStack) -> None:
    """Start a thread that removes old sessions from this session's folder when all together exceed `quota_bytes`.

    The thread looks every five minutes, until `stack` is closed.
    """
    assert session.folder
    quota = Quota(quota_bytes, lambda kind, text: session.state.add_event(Remark(kind), "info", "edgetop", text))
    first, stopped = session.folder, threading.Event()  # the first folder is never removed: it has the log of the run

    def keep() -> None:
        is_over = False
        while not is_over:
            now = session.folder or first
            quota.enforce(now.name.parent, spared=(first.name, now.name))
            is_over = stopped.wait(QUOTA_EVERY_S)

    thread = threading.Thread(target=keep, name="quota", daemon=True)
    thread.start()
    stack.callback(thread.join, QUOTA_EVERY_S)
    stack.callback(stopped.set)


def is_system_stopping() -> bool:
    """Whether systemd is shutting the machine down or rebooting it. False without systemd."""
    command = ("systemctl", "is-system-running")
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SYSTEMCTL_S)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.strip() == "stopping"


class ServiceManager:
    """Tells systemd that the session has started, that it is alive, and its state in words. See sd_notify(3).

    If the session hangs, the messages stop, and systemd's watchdog restarts edgetop.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._folds, self._words = -1, ""

    def observe(self, analysis: "Analysis") -> None:
        from edgetop.analysis.progress import is_stalled  # noqa: PLC0415
        from edgetop.wording import verdict_words  # noqa: PLC0415

        news = []
        if self._folds < 0:
            news.append("READY=1")
        progress, manifest = analysis.progress.view(), analysis.manifest
        is_idle = manifest is not None and manifest.watched is not None  # a watched program may be idle
        hangs = not is_idle and is_stalled(progress, analysis.alerts.stalls.longest_ns or None, manifest)
        if (analysis.folds != self._folds and not hangs) or progress.phase == "over":
            news.append("WATCHDOG=1")
        self._folds = analysis.folds
        words = " ".join(verdict_words.first(analysis.verdict()).split())
        if words != self._words:
            news.append(f"STATUS={words}")
            self._words = words
        if news:
            self._notify(*news)

    def _notify(self, *news: str) -> None:
        """Send these lines to systemd, such as `READY=1`. If nobody listens, do nothing."""
        try:
            self._socket.sendto("\n".join(news).encode(errors="replace"), self._address)
        except OSError:
            return

    def close(self) -> None:
        self._notify("STOPPING=1")
        self._socket.close()


def service_managers(stack: ExitStack) -> list[Observer]:
    """Return a list with one observer that keeps systemd informed until `stack` is closed.

    The list is empty if systemd does not ask for messages. The variable NOTIFY_SOCKET is removed from the environment,
    so that child processes do not send messages too.
    """
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return []
    manager = ServiceManager(address)
    stack.callback(manager.close)
    return [manager.observe]
