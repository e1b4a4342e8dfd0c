"""`edgetop service`: write a systemd unit that keeps a run going, with rotation, disk quota, watchdog and restart."""

import os
import pwd
import re
import stat
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import click

from edgetop.cli.companions import needs, not_beside, option
from edgetop.cli.output import print_text
from edgetop.cli.running import demo, run
from edgetop.cli.terminal import edgetop_command
from edgetop.cli.watching import watch
from edgetop.errors import InputError, OutputError
from edgetop.files import read_file, write_file
from edgetop.formatting import clean
from edgetop.paths import home

EXAMPLES = """\b
Examples:
  edgetop service run detector.tflite --rate 30 --deadline 33ms
  edgetop service --install run detector.tflite --metrics 9464
  edgetop service --install --name camera watch -- python3 app.py
  edgetop service --system run model.onnx | sudo tee /etc/systemd/system/edgetop.service
"""
KEPT_GOING = {"run": run.command, "watch": watch.command, "demo": demo.command}
UNIT_MODE = 0o644  # before the umask; systemd reads the unit as the user
WATCHDOG_S, RESTART_S = 120, 30
# At shutdown systemd stops in reverse order: what carries the last metrics goes after edgetop.
STOPPED_AFTER = ("network.target", "prometheus-node-exporter.service", "node_exporter.service")
STOP_S = 150  # a watched program may take 90 s to end, and then scrapers may need 60 s to read the end
# Code of edgetop that a unit executes, besides the files in its folder.
OUR_CODE = (Path(sys.executable), Path(run.__file__), Path(sysconfig.get_path("purelib")))
OURS = "# Written by edgetop service"


OPTIONS = (
    option("--install", is_flag=True, help="Install the unit for your user's systemd manager."),
    option(
        "--system", is_flag=True, help="Print a unit for the system manager, which runs as you.",
        rules=[not_beside("install", advice="write its output to /etc/systemd/system as root")],
    ),
    option("--user", metavar="NAME", help="User that the unit runs as. Default: you.", rules=[needs("system")]),
    option("--name", default="edgetop", show_default=True, metavar="NAME", help="Name of the unit."),
)  # fmt: skip


@click.command(
    "service", params=[*OPTIONS], epilog=EXAMPLES, context_settings={"allow_interspersed_args": False}
)  # fmt: skip
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, required=True, metavar="run|watch|demo [ARGS]...")
def command(arguments: tuple[str, ...], name: str, user: str | None, *, install: bool, system: bool) -> None:
    """Print a systemd unit that keeps a run, watch or demo going in the current folder.

    The unit runs with --headless and, unless you give others, with --rotate 24h and --sessions-quota 2G.
    """
    if not re.fullmatch(r"[A-Za-z0-9:_.@-]{1,128}", name):
        raise InputError(f"--name {name}: the name of a unit may have letters, digits and : _ . @ -")
    folder, completed, owner = Path.cwd(), _completed(arguments), _owner(user)
    _refuse_name(folder)
    if owner.pw_uid == 0:
        refuse_changeable((*OUR_CODE, folder, *(folder / word for word in arguments if (folder / word).is_file())))
    unit = unit_of(completed, folder, owner.pw_name if system else None)
    if not install:
        click.echo(unit, nl=False)
        return
    path = _write(f"{name.removesuffix('.service')}.service", unit)
    print_text(
        f"edgetop: wrote {path}. Next steps:\n"
        f"  systemctl --user daemon-reload\n"
        f"  systemctl --user enable --now {path.stem}\n"
        f"  loginctl enable-linger     to run from boot on, and after you have logged out",
        err=True,
    )


def _completed(arguments: tuple[str, ...]) -> list[str]:
    """Return the arguments of a command with the options added that a service needs, such as --headless.

    `arguments` begin with run, watch or demo. All options are checked as if the command ran now. Raises InputError if
    an option does not suit a service.
    """
    kind, *rest = arguments
    if kind not in KEPT_GOING:
        raise InputError(f"{kind}: cannot run as a service", "edgetop service run MODEL, or watch -- PROGRAM")
    given = KEPT_GOING[kind].make_context(kind, list(rest)).params
    for unfit, why in (("detach", "systemd waits for it"), ("as_json", "nobody reads its result")):
        if given[unfit]:
            raise InputError(f"--{'json' if unfit == 'as_json' else unfit}: not for a service: {why}")
    if kind == "run" and given["model"] is None:
        raise InputError(
            "run: no model is given", "edgetop service run MODEL, or demo for the built-in model on a virtual board"
        )
    if given.get("model") is not None and not given["model"].is_file():
        raise InputError(f"{given['model']}: no such file")
    added = [] if given["headless"] else ["--headless"]
    if not given["rotate"] and not given["no_record"] and not given["gates"]:
        added += ["--rotate", "24h"]
    if not given["sessions_quota"] and not given["no_record"]:
        added += ["--sessions-quota", "2G"]
    return [kind, *added, *rest]


def _owner(name: str | None) -> pwd.struct_passwd:
    """Return the user as whom a unit runs: the user `name`, or the current user if it is None.

    Raises InputError if there is no such user.
    """
    try:
        return pwd.getpwuid(os.geteuid()) if name is None else pwd.getpwnam(name)
    except KeyError:
        raise InputError(f"--user {name}: no such user" if name else "this user has no name", "--user NAME") from None


def _refuse_name(folder: Path) -> None:
    """Raise InputError if systemd's WorkingDirectory= cannot name this folder: it cannot quote special characters."""
    text = str(folder)
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", text) or text != text.strip() or text.endswith("\\"):
        raise InputError(f"{clean(text)}: systemd cannot start a unit in a folder with this name", "rename the folder")


def refuse_changeable(paths: Iterable[Path]) -> None:
    """Raise InputError if a user other than root can change one of these files, which root is going to execute."""
    for path in paths:
        chain = {place for start in (path.absolute(), path.resolve()) for place in (start, *start.parents)}
        for place in sorted(chain):
            status = place.lstat()
            is_shared = status.st_mode & (0o002 if status.st_gid == 0 else 0o022) and not stat.S_ISLNK(status.st_mode)
            if status.st_uid or (is_shared and not status.st_mode & stat.S_ISVTX):
                text = f"the unit would run as root, but other users may change {clean(str(place))}"
                raise InputError(
                    text, "--system --user NAME, or move edgetop and the model to where only root can write"
                )


def unit_of(arguments: list[str], folder: Path, user_name: str | None) -> str:
    """Return the text of a systemd unit that starts edgetop with `arguments`.

    `folder` is the unit's working directory. `user_name` is the user that a system unit runs as. None makes a unit of
    the current user's own systemd.
    """
    user = f"User={user_name}\n" if user_name else ""
    order = f"After={' '.join(STOPPED_AFTER)}\n" if user_name else ""  # units of users know none of the machine's
    program = edgetop_command()
    environment = {name: os.environ[name] for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME") if name in os.environ}
    variables = "".join(f"Environment={quoted(f'{key}={value}', dollar=False)}\n" for key, value in environment.items())
    return f"""\
{OURS}; see edgetop help service
[Unit]
Description=edgetop {arguments[0]}
{order}StartLimitIntervalSec=0

[Service]
Type=notify
{user}WorkingDirectory={str(folder).replace("%", "%%")}
{variables}ExecStart={" ".join(quoted(word) for word in (*program, *arguments))}
Restart=always
RestartSec={RESTART_S}
WatchdogSec={WATCHDOG_S}
TimeoutStartSec=infinity
TimeoutStopSec={STOP_S}
KillMode=mixed

[Install]
WantedBy={"multi-user" if user_name else "default"}.target
"""


def quoted(word: str, *, dollar: bool = True) -> str:
    r"""Return a word quoted for systemd (systemd.service(5), COMMAND LINES; systemd.syntax(7), QUOTING).

    With `dollar`, each `$` is doubled, so that systemd does not insert a variable.

    >>> quoted("model.onnx"), quoted('a "$x" 5%\n')
    ('model.onnx', '"a \\"$$x\\" 5%%\\n"')
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = re.sub(r"[\x00-\x1f\x7f]", lambda control: f"\\x{ord(control[0]):02x}", escaped.replace("\n", "\\n"))
    if dollar:
        escaped = escaped.replace("$", "$$")
    return escaped if re.fullmatch(r"[\w@%+=:,./-]+", escaped) else f'"{escaped}"'


def _write(name: str, unit: str) -> Path:
    """Write the unit with the file name `name` to the folder of the user's units. Return its path.

    Raises InputError if another program wrote a unit with this name, or OutputError if the file cannot be written.
    """
    config = os.environ.get("XDG_CONFIG_HOME", "")
    folder = (Path(config) if config.startswith("/") else home() / ".config") / "systemd" / "user"
    path = folder / name
    try:
        if os.path.lexists(path) and not read_file(path).startswith(OURS.encode()):
            raise InputError(f"{path}: was not written by edgetop", "choose another name with --name")
        folder.mkdir(parents=True, exist_ok=True)
        write_file(path, unit, UNIT_MODE)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    return path
