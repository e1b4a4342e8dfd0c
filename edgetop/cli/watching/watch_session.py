"""The program that is watched: which one it is, how it is started, and what is printed when it ends."""

import ctypes
import os
import pwd
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli.companions import Given, taken
from edgetop.cli.output import print_json, print_text, table
from edgetop.errors import EXIT_DONE, InputError
from edgetop.formatting import clean, quantity
from edgetop.frozen import frozen
from edgetop.runner.engine_limit import Limit, limit_of
from edgetop.taps import perf
from edgetop.taps.preload import preload_library
from edgetop.taps.runtimes import runtime_of
from edgetop.taps.watched_container import WatchedContainer
from edgetop.taps.watched_process import (
    ModelProcess,
    ProcessSpec,
    WatchedProcess,
    command_of,
    main_process,
    model_processes,
)
from edgetop.taps.watched_program import ProgramSpec, Surroundings, WatchedProgram

if TYPE_CHECKING:
    from edgetop.cli.running.run_request import RunRequest
    from edgetop.cli.running.session_end import End

Program = WatchedProgram | WatchedProcess | WatchedContainer
COMMAND_WIDTH = 30  # most characters of a command in the table of processes
_PR_SET_DUMPABLE = 4  # prctl(2)


@frozen
class WatchOptions:
    """The options of `edgetop watch` that select the program to watch and how to watch it."""

    pid: int | None
    unit: str | None
    all_: bool
    app_output: Path | None
    app_log: bool
    follow_children: bool
    against: Path | None
    stop_signal: signal.Signals
    stop_timeout: int  # ns
    no_preload: bool
    no_hook: bool
    duration: int | None  # ns
    runs: int | None
    headless: bool
    as_json: bool
    limits: tuple[dict[str, float], ...]
    container: str | None
    dockerfile: Path | None
    setup: str | None
    container_args: str

    @property
    def limit(self) -> Limit:
        """The limits of all `--limit` options together. Raises InputError if a resource is limited twice."""
        return limit_of(self.limits)


def watch_program(command: tuple[str, ...], given: Given) -> int:
    """Watch the program that the command line selects. Return the exit code of `edgetop watch`.

    `command` is the program and its arguments, to be started; () if the options select a running program instead.
    `given` holds the parsed options by name.
    """
    if given["url"] is not None:
        return watch_server(command, given)
    options = taken(WatchOptions, given)
    program: Program
    is_running = options.container is not None and not command
    pid = None if is_running else _chosen_process(command, options)
    if is_running:
        program = _running_container(options)
    elif command:
        program = _started(command, options)
    elif pid is None:
        return EXIT_DONE  # the processes were only listed
    else:
        program = WatchedProcess(ProcessSpec(command_of(pid), pid, options.duration, options.runs, options.unit))
    try:
        end = _watch(given, program)
    finally:
        if isinstance(program, WatchedProgram):
            _report_end(program, sys.argv[1 : len(sys.argv) - len(command)])
    if options.against and end.folder and not (end.error or end.interrupted):
        from edgetop.cli.watching.gap import loop_after  # noqa: PLC0415

        loop_after(end.folder, options.against)
    if program.exit_status and not program.was_stopped:
        return program.exit_status
    return end.exit_code()


_OF_PROGRAMS = (
    "pid",
    "unit",
    "all_",
    "app_output",
    "follow_children",
    "against",
    "no_preload",
    "no_hook",
    "limits",
    "container",
    "dockerfile",
    "setup",
    "container_args",
)


def watch_server(command: tuple[str, ...], given: Given) -> int:
    """Watch a server of language models (`--url`). Return the exit code.

    `command` holds the words after the options, of which there must be none. `given` holds the parsed options by name.
    Raises InputError for options that apply only to programs.
    """
    from edgetop.cli.running import run_request as asked  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.running.run import run_model  # noqa: PLC0415

    others = [f"--{name.strip('_').replace('_', '-')}" for name in _OF_PROGRAMS if given.get(name)]
    if command or others:
        raise InputError(f"--url and {'COMMAND' if command else others[0]} exclude each other", "give one of them")
    generation = asked.GenerationRequest.of(given)
    if not (generation.prompt or generation.prompts_file):
        for name in ("max_tokens", "temperature", "rate", "arrivals"):
            if given.get(name) is not None:
                raise InputError(
                    f"--{name.replace('_', '-')} needs --prompts or --prompt: without them, edgetop sends no request"
                )
    model = asked.ModelChoice(url=given["url"], generation=generation)
    load = asked.LoadRequest(given["rate"], given["arrivals"] or "fixed", deadline_ns=given["deadline"])
    return run_model(
        asked.RunRequest(
            subject=asked.ModelSubject(model),
            phases=asked.Phases(given["duration"], given["runs"], warmup_runs=1),
            load=load,
            board=asked.BoardRequest.of(given),
            judging=asked.Judging.of(given),
            keeping=asked.Keeping.of(given),
            metrics=asked.MetricsRequest.of(given),
            showing=asked.Showing.of(given),
        )
    )


def _running_container(options: WatchOptions) -> WatchedContainer:
    name = str(options.container)
    for given, written in (
        ("dockerfile", "--dockerfile"), ("setup", "--setup"), ("container_args", "--container-args"),
        ("limits", "--limit"), ("app_output", "--app-output"), ("follow_children", "--follow-children"),
    ):  # fmt: skip
        if getattr(options, given):
            advice = f"edgetop watch --container IMAGE {written} ... -- COMMAND"
            raise InputError(f"{written} applies only to a program that edgetop starts", advice)
    if options.runs is not None:
        raise InputError("--runs needs inferences, which are not seen in a running container", "give --duration")
    return WatchedContainer(name, options.duration)


def _report_end(program: WatchedProgram, words: Sequence[str]) -> None:
    """Print whether the program still runs.

    If the program crashed early, and edgetop may be the cause, print how to watch it with less intrusion. On a
    terminal, the user can have the program run again in that way. `words` is the command line of edgetop up to the
    program.
    """
    if goes_on := program.goes_on():
        print_text(f"edgetop: {goes_on}", err=True)
    if not (program.crashed_early and (program.spec.has_hook or program.spec.preload)):
        return
    again = [*without_hooks(words), *program.spec.command]
    text = f"{program.spec.name} crashed soon after its start. If it does not crash without edgetop, watch it without"
    print_text(f"edgetop: {text} loading anything into it: edgetop {clean(shlex.join(again))}", err=True)
    if sys.stdin and sys.stdin.isatty() and sys.stderr.isatty():
        from edgetop.cli.terminal import edgetop_command  # noqa: PLC0415

        if click.confirm("Run it again this way?", default=False, err=True):
            order = edgetop_command(*again)
            os.execv(order[0], order)  # noqa: S606  no shell is meant


def without_hooks(words: Sequence[str]) -> list[str]:
    """Return the command line changed so that edgetop loads nothing into the program and records under a new name.

    >>> without_hooks(["watch", "--headless", "-o", "a.edgetop", "--"])
    ['watch', '--no-preload', '--no-hook', '--headless', '-o', 'a-again', '--']
    """
    from edgetop.recording.session_folder import SUFFIX  # noqa: PLC0415

    changed, is_output = [], False
    for word in words:
        name, equals, value = word.partition("=")
        if is_output:
            changed.append(f"{word.removesuffix(SUFFIX)}-again")
        elif name == "--output" and equals:
            changed.append(f"{name}={value.removesuffix(SUFFIX)}-again")
        elif word not in ("--no-preload", "--no-hook"):
            changed.append(word)
        is_output = word in ("-o", "--output")
    at = changed.index("watch") + 1 if "watch" in changed else 0
    return [*changed[:at], "--no-preload", "--no-hook", *changed[at:]]


def watch_request(given: Given, program: Program) -> "RunRequest":
    """Return the request for a session that watches `program`, made from the command-line options of `edgetop watch`.

    `given` holds the parsed options by name. Raises InputError if options cannot be used together.
    """
    from edgetop.cli.running import run_request as asked  # noqa: PLC0415  --help needs none of it

    return asked.RunRequest(
        subject=asked.ProgramSubject(program, limit_of(given["limits"])),
        phases=asked.Phases(given["duration"], given["runs"]),
        load=asked.LoadRequest(deadline_ns=given["deadline"]),
        board=asked.BoardRequest.of(given),
        judging=asked.Judging.of(given),
        keeping=asked.Keeping.of(given),
        metrics=asked.MetricsRequest.of(given),
        showing=asked.Showing.of(given),
    )


def _watch(given: Given, program: Program) -> "End":
    from edgetop.cli.terminal import terminal_for  # noqa: PLC0415  --help needs none of it

    request = watch_request(given, program)
    showing = request.showing
    is_recorded = request.keeping.is_recorded
    terminal = terminal_for(headless=showing.headless, detach=showing.detach, is_recorded=is_recorded)
    if isinstance(program, WatchedProcess):
        user = invoking_user()
        program.start_helpers((user.pw_uid, user.pw_gid) if user else None)
        if user:
            become(user)
    from edgetop.cli.running.run_session import run_session  # noqa: PLC0415  only now: the process that waits for the run stays small

    return run_session(request, terminal)


def limited_cpus(limit: Limit, cpus: frozenset[int]) -> frozenset[int]:
    """Return the CPUs that the program may use under `limit`: the first of `cpus`, as many as `limit` allows.

    `cpus` are the numbers of the CPUs that edgetop may use. Raises InputError if there are too few.
    """
    if limit.cpus is None:
        return cpus
    if limit.cpus > len(cpus):
        raise InputError(
            f"--limit cpus={limit.cpus}: this process may use {quantity(len(cpus), 'CPU')}", "choose fewer"
        )
    return frozenset(sorted(cpus)[: limit.cpus])


def _started(command: tuple[str, ...], options: WatchOptions) -> WatchedProgram:
    from edgetop.paths import cache_home  # noqa: PLC0415

    output, limit, now = options.app_output, options.limit, Surroundings.now()
    surroundings = replace(now, cpus=limited_cpus(limit, now.cpus))
    if output is not None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            os.close(os.open(output, flags, 0o600))  # opened as for the program, but without waiting for a pipe
        except OSError as error:
            raise InputError(f"--app-output {output}: cannot be written: {error.strerror}") from None
    shows = options.headless and output is None and not options.app_log
    # A program beside a screen cannot read the terminal, because the screen does.
    reads = options.headless or (sys.stdin and not sys.stdin.isatty())
    spec = ProgramSpec(
        command,
        options.duration,
        options.runs,
        follow_children=options.follow_children,
        output=output and output.absolute(),
        has_hook=not options.no_hook,
        preload=None if options.no_preload else preload_library(cache_home()),
        stdin=0 if sys.stdin and reads else None,
        stdout=(sys.stderr if options.as_json else sys.stdout).fileno() if shows else None,
        stderr=sys.stderr.fileno() if shows else None,
        stop_signal=options.stop_signal,
        stop_timeout_ns=options.stop_timeout,
        surroundings=surroundings,
        limit_bytes=limit.memory_bytes,
    )
    if options.container or options.dockerfile:
        from edgetop.cli.watching.contained import contained  # noqa: PLC0415  a program without a container needs it not

        spec = contained(spec, options.container, options.dockerfile, options.setup, options.container_args, limit)
    return WatchedProgram(spec)


def _chosen_process(command: tuple[str, ...], options: WatchOptions) -> int | None:
    """Return the id of the running process to watch.

    `command` holds the words of a program to start. Return None if it has any words, or if processes were only listed
    (`--all`). Raises InputError if the options contradict each other.
    """
    if not command and options.dockerfile:
        raise InputError("--dockerfile needs a command to run", "edgetop watch --dockerfile FILE -- COMMAND")
    ways = {"-- COMMAND": command, "--pid": options.pid, "--unit": options.unit, "--all": options.all_, "--url": None}
    asked = [name for name, value in ways.items() if value]
    if len(asked) != 1:
        message = " and ".join(asked) + " exclude each other" if asked else "there is nothing to watch"
        raise InputError(message, f"give one of {', '.join(ways)}")
    if command:
        return None
    for name in ("app_output", "follow_children", "against", "no_preload", "no_hook"):
        if getattr(options, name):
            raise InputError(
                f"--{name.replace('_', '-')} applies only to a program that edgetop starts", "edgetop watch -- COMMAND"
            )
    if options.all_:
        pid = _choose_process(as_json=options.as_json)
        if pid is not None:
            refuse_where_unseen(("watch", "--pid", str(pid)))
        return pid
    pid = options.pid
    if options.unit:
        pid, state = main_process(options.unit)
        if not pid:
            raise InputError(f"--unit {options.unit}: no main process: {state}", "start it first: systemctl start")
    assert pid is not None
    command_of(pid)
    refuse_where_unseen(sys.argv[1:])
    return pid


def refuse_where_unseen(words: Sequence[str]) -> None:
    """Raise InputError if running processes cannot be watched: the kernel lacks uprobes or denies their use.

    `words` is the command line of edgetop, which the error shows with sudo.
    """
    if why := perf.why_not():
        raise InputError(why, "edgetop watch -- COMMAND works without uprobes")
    if not perf.may_set():
        raise InputError("watching a running process needs root", with_sudo(words))


def _choose_process(*, as_json: bool) -> int | None:
    """List the processes that run a model. Return the id of the process that the user chooses.

    None if there is no terminal to choose on or no process. `as_json` lists them as JSON and returns None. Raises
    InputError if the user chooses none.
    """
    processes, closed = model_processes()
    if as_json:
        print_json(
            {
                "processes": [
                    {**asdict(one), "why_not": one.why_not or None, "calls_per_s": None} for one in processes
                ],
                "closed": closed,
                "why_no_rates": "calls are counted only in the process that is watched",
            }
        )
        return None
    may_choose = sys.stdin.isatty() and sys.stderr.isatty()
    for number, line in enumerate(_lines(processes)):
        print_text(f"{number or '':>3}  {line}" if may_choose else line, err=may_choose)
    notes = [] if processes else ["no process here uses a known inference runtime or a model"]
    if closed:
        those = "1 process" if closed == 1 else f"{closed} processes"
        notes.append(f"{those} of other users could not be inspected: {with_sudo(['watch', '--all'])}")
    for note in notes:
        print_text(f"edgetop: {note}", err=True)
    if not (processes and may_choose):
        return None
    from edgetop.cli.choosing import ask_which  # noqa: PLC0415  where it is asked for

    place = ask_which(len(processes))
    if place is None:
        raise InputError("no process was chosen", "choose one: edgetop watch --pid N")
    return processes[place].pid


def _lines(processes: list[ModelProcess]) -> list[str]:
    """Return the lines of a table of processes: the header, then a line for each process. [] without processes."""
    rows = []
    for one in processes:
        command = clean(shlex.join((one.command[0].rpartition("/")[2], *one.command[1:])))
        short = command if len(command) <= COMMAND_WIDTH else f"{command[: COMMAND_WIDTH - 1]}…"
        runtimes = dict.fromkeys(runtime_of(name) for name in one.runtimes)
        what = clean(", ".join((*runtimes, *(path.rpartition("/")[2] for path in one.models[:3]))))
        rows.append((str(one.pid), one.user, short, f"{what} (not watched: {one.why_not})" if one.why_not else what))
    heads = ("pid", "user", "command", "runtime and models")
    return list(table(heads, rows, heads)) if rows else []


def with_sudo(words: Sequence[str]) -> str:
    """Return the shell command that runs edgetop as root with the arguments `words`, such as `sudo /bin/edgetop watch`.

    The command has the full path of edgetop, since sudo does not search the user's PATH.
    """
    from edgetop.cli.terminal import edgetop_command  # noqa: PLC0415

    program = shutil.which("edgetop") or ""
    return shlex.join(["sudo", *([program] if program.startswith("/") else edgetop_command()), *words])


def invoking_user() -> pwd.struct_passwd | None:
    """Return the user who called sudo. None without sudo, or if root called it."""
    number = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not number.isdecimal() or int(number) == 0:
        return None
    try:
        return pwd.getpwuid(int(number))
    except KeyError:
        return None


def become(user: pwd.struct_passwd) -> None:
    """Make this process run as `user` from now on, so that all files that edgetop writes belong to that user."""
    os.initgroups(user.pw_name, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self would still belong to root
