"""The list of all commands, and the text of `edgetop --help`. It imports nothing, so that the help appears at once."""

# name -> (module, what it does)
COMMANDS = {
    "run": ("edgetop.cli.running.run", "Run a model and watch it: latency, heat, power, memory, events."),
    "watch": ("edgetop.cli.watching.watch", "Watch the inferences of your own program, without changing it."),
    "demo": ("edgetop.cli.running.demo", "Try it on a virtual board that overheats; the inference is real."),
    "ab": ("edgetop.cli.comparing.ab", "Compare two models or settings in turns: is the difference real?"),
    "attach": ("edgetop.cli.watching.attach", "Watch a running session, here or over ssh."),
    "fleet": ("edgetop.cli.boards.fleet", "Watch many boards on one screen, over ssh; run a model on all."),
    "stop": ("edgetop.cli.watching.stop", "End a running session; returns when its recording is complete."),
    "sessions": ("edgetop.cli.sessions.sessions", "List running and recorded sessions."),
    "bundle": ("edgetop.cli.sessions.bundle", "Put a session and its report into one file, to send to a colleague."),
    "rm": ("edgetop.cli.sessions.rm", "Delete recorded sessions, after a question."),
    "sweep": ("edgetop.cli.comparing.sweep", "Measure every combination of models and settings; recommend one."),
    "fit": ("edgetop.cli.comparing.fit", "Predict latency and memory of a model on a device from a run at the desk."),
    "fit-memory": ("edgetop.cli.comparing.fit_memory", "Find the least memory with which a model runs well."),
    "report": ("edgetop.cli.sessions.report", "Summarise a recorded session, as text or JSON."),
    "tail": ("edgetop.cli.sessions.tail", "List the slowest inferences, and what was different in each."),
    "trace": ("edgetop.cli.sessions.trace", "Cut the log of a fast power meter by the inferences of a session."),
    "compare": ("edgetop.cli.comparing.compare", "Compare sessions: which is better, and whether it really is."),
    "gap": ("edgetop.cli.watching.gap", "Explain why an application is slower than a loop over its model, in ms."),
    "replay": ("edgetop.cli.sessions.replay", "Play a recorded session on the live screen: pause, speed, seek."),
    "export": ("edgetop.cli.sessions.export", "Export a session to csv, json, parquet, perfetto or a smaller session."),
    "import": (
        "edgetop.cli.sessions.import_file",
        "Import results of trtexec, benchmark_model, ONNX Runtime, tegrastats.",
    ),
    "push": ("edgetop.cli.boards.push", "Copy sessions into a lake: a folder or a bucket of many boards' sessions."),
    "pull": ("edgetop.cli.boards.pull", "Copy a session back from a lake, to replay it."),
    "lake": ("edgetop.cli.boards.lake", "Query a lake: the fleet, its worst boards, regressions, throttling, energy."),
    "forecast": ("edgetop.cli.sessions.forecast", "Forecast whether a board would throttle in a warmer room."),
    "ops": ("edgetop.cli.running.ops", "Profile the operators of a model: time, FLOPs, bytes, provider."),
    "inspect": (
        "edgetop.cli.board.inspect",
        "Show the operators, weights and FLOPs of a model file, without a runtime.",
    ),
    "sensors": ("edgetop.cli.board.sensors", "List the sensors of this board, and what is missing."),
    "engines": ("edgetop.cli.board.engines", "List the runtimes that can run models here, and what others need."),
    "doctor": ("edgetop.cli.board.doctor", "Check whether this board is fit to measure on, and how to fix it."),
    "board-report": (
        "edgetop.cli.board.board_report",
        "Measure this board for five minutes; write one file to send.",
    ),
    "self-test": ("edgetop.cli.board.self_test", "Check whether this installation works, and what it lacks."),
    "bundle-for": (
        "edgetop.cli.board.bundle_for",
        "Write one file that runs edgetop where pip and network are missing.",
    ),
    "service": ("edgetop.cli.board.service", "Print or install a systemd unit that keeps a run going for months."),
    "grafana": ("edgetop.cli.boards.grafana", "Print a Grafana dashboard, or alert rules, for edgetop's metrics."),
    "relay": ("edgetop.cli.watching.relay", "Stream a session over ssh; started by edgetop attach ssh:HOST."),
    "completion": ("edgetop.cli.completion", "Print the completion script for bash, zsh or fish."),
    "help": ("edgetop.cli.help", "Read the documentation: edgetop help TOPIC."),
}

USAGE = "Usage: edgetop [OPTIONS] COMMAND [ARGS]..."
ABOUT = """\
  Watch a model run on an edge board: is it fast enough, does it stay fast, and
  if not, why? Without a command: run the built-in demo model on the live screen."""
EXAMPLES = """\
  edgetop                          watch the built-in demo model
  edgetop demo                     watch it overheat on a virtual board
  edgetop run model.onnx           watch your model; it is recorded as it runs
  edgetop watch -- python app.py   watch the inferences of your program
  edgetop run model.tflite --headless --duration 60s --json
  edgetop run model.onnx --detach  leave it running; edgetop attach, edgetop stop
  edgetop report demo-20261121-101502
  edgetop replay demo-20261121-101502 --speed 10
  edgetop doctor                   is this board fit to measure on?"""


def help_text() -> str:
    commands = "\n".join(f"  {name:<12} {text}" for name, (_, text) in COMMANDS.items())
    return f"""\
{USAGE}

{ABOUT}

Options:
  -V, --version  Show the version and exit.
  --verbose      With --version: also those of Python, runtimes and packages.
  -h, --help     Show this message and exit.

Commands:
{commands}

Examples:
{EXAMPLES}
"""
