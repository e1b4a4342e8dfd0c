"""`edgetop watch`: watch the inferences of another program on the live screen."""

import copy
from collections.abc import Iterator
from pathlib import Path

import click

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, Value, needs, not_beside, option, ruled
from edgetop.cli.grouped_help import GroupedCommand
from edgetop.cli.running import run

EXAMPLES = """\b
Examples:
  edgetop watch -- python3 app.py --camera 0
  edgetop watch --deadline 33ms --alert throttled -- python3 app.py
  edgetop watch --limit cpus=2 --limit memory=512M -- python3 train.py
  edgetop watch --headless --duration 10m --fail-if 'p99>33ms' -- ./detector
  edgetop watch --duration 1m --against model.onnx -- python3 app.py
  edgetop watch --container python:3.12 --setup 'pip install -r requirements.txt' -- python3 app.py
  sudo edgetop watch --pid 4711                 a running process
  edgetop watch --url http://127.0.0.1:8080     a running llama-server
  edgetop watch --all                           list the processes that run models
  edgetop help watch                            how it works
"""

# Options of `run` that concern a model run by edgetop, and that `watch` therefore lacks.
_NOT_OF_WATCH = {
    "preset",
    *("model", "engine", "engine_python", "providers", "delegates", "no_xnnpack", "batch", "threads", "inputs"),
    *("seed", "require_full_delegation", "warmup_runs", "warmup_time", "idle_baseline", "isolation", "profile_every"),
    *("engine_cpus", "rate", "arrivals", "streams", "delay", "duty", "limits", "keep_outputs", "pace_of", "shapes"),
    *("image_size", "image_layout", "image_mean", "image_scale", "signature"),
    *("optimize", "session_options", "custom_ops", "inter_op_threads", "execution_mode", "no_arena"),
    *("prompt", "prompts_file", "prompt_tokens", "max_tokens", "context", "temperature", "gpu_layers", "parallel"),
}

NEEDS_URL = needs("url", advice="edgetop watch --url http://127.0.0.1:8080 --prompts FILE")
# Options of `run` that apply to requests to a server.
_OF_SERVER = ("prompt", "prompts_file", "max_tokens", "temperature", "rate", "arrivals", "parallel")


def _of_server() -> Iterator[click.Option]:
    for param in run.command.params:
        if isinstance(param, click.Option) and param.name in _OF_SERVER:
            one = copy.copy(param)
            one.help = (param.help or "").replace("Language model:", "--url:")
            yield ruled(one, NEEDS_URL)


PARAMS = (
    option(
        "--url", metavar="URL",
        help="Watch a server of language models: read llama-server's /metrics and /slots or, with --prompts, send "
        "requests to the server as a client.",
    ),
    option("--pid", type=click.IntRange(1), metavar="N", help="Watch the running process with this id. Needs root."),
    option(
        "--unit", metavar="NAME.service",
        help="Watch the main process of a systemd unit, across its restarts. Needs root.",
    ),
    option(
        "all_", "--all", is_flag=True,
        help="List the processes that run models, and let you choose one to watch.",
    ),
    option(
        "--app-output", type=PATH, metavar="FILE",
        help="Append the output of the program to FILE. Default: program.log in the recording, and events.",
    ),
    option(
        "--app-log", is_flag=True, hidden=True,
        help="Write the output of the program to program.log with --headless too.",
    ),
    option(
        "--stop-signal", type=text.stop_signal, metavar="SIGNAL", default="TERM", show_default=True,
        help="Signal that asks the program to end, such as INT.",
    ),
    option(
        "--stop-timeout", type=text.duration, metavar="TIME", default="90s", show_default=True,
        help="Send SIGKILL if the program has not ended TIME after the stop signal.",
    ),
    option(
        "--no-preload", is_flag=True, help="Load no library into the program. Calls from C and C++ are then not seen.",
    ),
    option("--no-hook", is_flag=True, help="Do not hook Python. Calls from Python are then not seen."),
    option("--follow-children", is_flag=True, help="Also watch the processes that the program starts."),
    option(
        "--limit", "limits", type=text.limit, multiple=True, metavar="WHAT",
        help="Limit the program and all its children: cpus=2, memory=512M, quota=150%[,period=10ms], io=10M/s "
        "(edgetop help limits). Repeatable.",
        rules=[not_beside("pid", "unit", "all_", message="{} applies only to a program that edgetop starts",
                          advice="edgetop watch --limit memory=512M -- COMMAND")],
    ),
    option(
        "--container", metavar="IMAGE|NAME",
        help="Run COMMAND in an image, with docker or podman. Without COMMAND: watch the container NAME, which runs "
        "already (edgetop help container).",
        rules=[not_beside("pid", "unit", "all_", "against")],
    ),
    option(
        "--dockerfile", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
        help="Build the image of COMMAND from FILE, with the current folder as its context.",
        rules=[not_beside("pid", "unit", "all_", "against")],
    ),
    option(
        "--setup", metavar="COMMAND",
        help="Shell command that prepares the image, such as 'pip install -r requirements.txt'. It runs once and is "
        "not measured.",
        rules=[needs("container", "dockerfile")],
    ),
    option(
        "--container-args", metavar="OPTIONS", default="",
        help="Further options of docker run or podman run, in one text: '--gpus all --env KEY=VALUE'.",
        rules=[needs("container", "dockerfile")],
    ),
    option(
        "--against", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="MODEL",
        help="When the program has ended, run MODEL in a loop for 20 s and explain why the program is slower.",
        rules=[not_beside("no_record", "no_raw", "as_json", "detach")],
    ),
    *_of_server(),
    *(param for param in run.command.params if param.name not in _NOT_OF_WATCH),
    click.Argument(["command"], nargs=-1, type=click.UNPROCESSED),
)  # fmt: skip


# Names of options by the group in which `--help` lists them.
GROUPS = {
    "Program": (
        "pid", "unit", "all_", "against", "follow_children", "app_output", "no_hook", "no_preload", "stop_signal",
        "stop_timeout",
    ),
    "Container": ("container", "dockerfile", "setup", "container_args"),
    "Server of language models": ("url", "prompt", "prompts_file", "max_tokens", "temperature", "rate", "arrivals"),
    "Session": ("duration", "runs", "deadline", "limits"),
    **run.GROUPS,
}  # fmt: skip


@click.command(
    "watch", cls=GroupedCommand, params=list(PARAMS), groups=GROUPS, epilog=EXAMPLES,
    context_settings={"allow_interspersed_args": False},
)  # fmt: skip
def command(command: tuple[str, ...], **options: Value) -> int:
    """Watch the inferences of another program, without changing it.

    COMMAND is the program and its arguments. edgetop exits with its exit status.
    """
    from edgetop.cli.watching.watch_session import watch_program  # noqa: PLC0415  --help needs none of it

    return watch_program(command, options)
