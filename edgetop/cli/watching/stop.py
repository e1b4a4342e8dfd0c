"""`edgetop stop`: end a session that another process runs."""

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli.shell_words import path_word, session_word
from edgetop.errors import InputError

if TYPE_CHECKING:
    from edgetop.control.control_socket import Answer
    from edgetop.recording.session_folder import FolderHandle

PATIENCE_S = 10.0  # how long to retry if a session takes no orders, because it is just starting or ending
SWEEP_PATIENCE_S = 30.0
LOOK_S = 0.1


@click.command("stop")
@click.argument("session", required=False, shell_complete=completion.running_sessions)
def command(session: str | None) -> int:
    """End SESSION and wait until its recording is complete.

    SESSION is a path, a name, the beginning of an id, or a sweep. Without SESSION, end the
    running session, or the running sweep; if several run, you can choose one on a terminal.
    A run that another terminal shows is ended only after a question, or by its name.

    The exit code is 0, or 4 if the recording could not be written.

    \b
    Examples:
      edgetop stop
      edgetop stop soak-42
    """
    from edgetop import sweep_plan  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.choosing import running  # noqa: PLC0415
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.recording.session_folder import LOCK, is_live, open_folder  # noqa: PLC0415

    if (sweep := sweep_meant(session)) is not None:
        if session is None:
            _ask_if_shown(sweep, sweep / sweep_plan.LOCK)
        return _stop_sweep(sweep)
    found = running(session, newest=False)
    if session is None:
        _ask_if_shown(found, found / LOCK)
    folder = open_folder(found)  # stays valid if the folder is moved meanwhile
    if not is_live(folder.path):
        raise InputError(f"{folder.name.stem}: is not running", f"edgetop report {session_word(folder.name)}")
    answer = _stop(folder)
    print_text(_how_it_ended(folder))
    if answer.error:
        print_text(f"edgetop: {answer.error}", err=True)
    return answer.exit_code


def _ask_if_shown(folder: Path, lock: Path) -> None:
    """Ask the user before ending a run that is shown on another terminal.

    Call it only if the user did not name the run. `folder` is the folder of the run, and `lock` its lock file. Raises
    InputError if the answer is no, or if there is no terminal to ask on.
    """
    from edgetop.control.lock_holders import viewers  # noqa: PLC0415
    from edgetop.formatting import clean  # noqa: PLC0415

    where = viewers(folder, lock)
    if not where:
        return
    name = clean(folder.stem)
    advice = f"edgetop stop {session_word(folder)} ends it without a question"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{name}: is shown on another terminal ({', '.join(where)})", advice)
    if not click.confirm(f"{name} is shown on {', '.join(where)}. End it?", default=False, err=True):
        raise InputError("nothing was ended", advice)


def sweep_meant(given: str | None) -> Path | None:
    """Return the folder of the sweep to stop, or None if a session is meant instead.

    `given` is what the user named. If it is None, return the running sweep, but only while no session runs, for example
    while the board cools down. Raises InputError if several sweeps match.
    """
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.registry import all_sessions, live_sessions  # noqa: PLC0415
    from edgetop.sweep_plan import FILE, SUFFIX, is_running  # noqa: PLC0415

    if given and (Path(given) / FILE).is_file():
        return Path(given)
    home, here = recordings_home(), Path.cwd()
    if (given and "/" in given) or (given is None and live_sessions(home, here)):
        return None
    beside = [session.parent for session in all_sessions(home, here)]
    near = [folder for place in (home, here) for folder in place.glob(f"*{SUFFIX}")]
    found = {folder.resolve(): folder for folder in (*near, *beside)}
    running = [one for one in found.values() if is_running(one) and (given or one.name) in (one.name, one.stem)]
    if len(running) > 1:
        raise InputError(f"{len(running)} sweeps run now", f"name one: {', '.join(map(str, running))}")
    return running[0] if running else None


def _stop_sweep(folder: Path) -> int:
    """End the process that runs the sweep in `folder`, and wait for its end. Return the exit code 0.

    Raises InputError if the sweep is not running or does not end within 30 s.
    """
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.control.control_socket import refuse_stopped  # noqa: PLC0415
    from edgetop.control.lock_holders import end_holder  # noqa: PLC0415
    from edgetop.sweep_plan import LOCK, is_running, refuse_others  # noqa: PLC0415

    quoted = path_word(folder)
    refuse_others(folder)
    if not is_running(folder):
        raise InputError(f"{folder}: is not running", f"edgetop sweep --resume {quoted}")
    pid, until_s = end_holder(folder / LOCK), time.monotonic() + SWEEP_PATIENCE_S
    if pid is None:
        advice = "stop it where it was started"
        raise InputError(f"{folder}: runs in a process that is not visible here, as in a container", advice)
    time.sleep(LOOK_S)
    while is_running(folder):
        refuse_stopped(folder.name, pid)
        if time.monotonic() > until_s:
            raise InputError(f"{folder}: is still running", f"kill {pid}")
        time.sleep(LOOK_S)
    print_text(f"stopped; edgetop sweep --resume {quoted} continues it")
    return 0


def _stop(folder: "FolderHandle") -> "Answer":
    """Tell the session to stop, wait for its end, and return its answer: an error message and an exit code.

    A session that is just starting or ending does not accept the request, so try for 10 s. Raises InputError if all
    tries fail.
    """
    from edgetop.control.control_socket import Answer, NotRunningError, give, refuse_stopped  # noqa: PLC0415
    from edgetop.control.lock_holders import lock_holder  # noqa: PLC0415
    from edgetop.recording.session_folder import LOCK, is_live  # noqa: PLC0415
    from edgetop.session.events import Order  # noqa: PLC0415

    until_s = time.monotonic() + PATIENCE_S
    while is_live(folder.path):
        with contextlib.suppress(NotRunningError):
            return give(folder.name, Order("stop"))
        if time.monotonic() > until_s:
            pid = lock_holder(folder.path / LOCK)
            refuse_stopped(folder.name.stem, pid or 0)
            advice = f"kill {pid}" if pid else "send SIGTERM to its process (kill)"
            raise InputError(f"{folder.name.stem}: runs, but takes no orders here", advice)
        time.sleep(LOOK_S)
    return Answer()


def _how_it_ended(folder: "FolderHandle") -> str:
    from edgetop import formatting  # noqa: PLC0415
    from edgetop.analysis.verdict import final_verdict  # noqa: PLC0415
    from edgetop.recording.session_folder import read_manifest  # noqa: PLC0415
    from edgetop.wording import verdict_words  # noqa: PLC0415

    where = formatting.clean(str(folder.name))
    if folder.why_gone:
        return f"over; {where} cannot be read: {folder.why_gone}"
    manifest = read_manifest(folder.path)
    if manifest.end_reason is None:
        return f"over, and not complete: edgetop report {session_word(folder.name)}"
    verdict = final_verdict(manifest.end_reason, None, manifest.watched)
    lasted = formatting.clock_time(manifest.duration_ns or 0)
    word, why = verdict_words.state_word(verdict), formatting.clean(", ".join(verdict_words.details(verdict)))
    return f"{word} ({why}) after {lasted}, recorded in {where}"
