"""Checks whether a logout ends background processes: systemd-logind's KillUserProcesses (logind.conf(5)).

The default of KillUserProcesses is set when systemd is built: yes upstream since 230, no in Debian and its derivatives.
The configuration files need not mention it, so logind is asked first. If the setting is yes, a logout ends every
process of the login session, even if lingering is on for the user. Lingering keeps the user's service manager alive
after the logout, and runs that were started under this manager.
"""

import contextlib
import pwd

from edgetop.doctor.check import BOOTED, Check, Facts, ok, problem, unknown
from edgetop.sensors.root import Root, run_command

NAME = "logout"
LINGER = "var/lib/systemd/linger"
ASK = ("loginctl", "show-session", "--property=KillUserProcesses", "--value")
FOLDERS = ("usr/lib/systemd", "usr/local/lib/systemd", "run/systemd", "etc/systemd")  # later ones override


def check(facts: Facts, uid: int) -> list[Check]:
    root = facts.root
    if not root.exists(BOOTED):
        return [ok(NAME, "no systemd is at work: a logout ends nothing")]
    kills = ask(root)
    if kills is None:
        advice = "start long runs under systemd-run --scope --user to be sure"
        return [unknown(NAME, "logind does not report whether it ends the processes of a user who logs out", advice)]
    return [judge(kills=kills, is_root=uid == 0, lingers=lingers(root, uid))]


def lingers(root: Root, uid: int) -> bool:
    """Whether systemd's lingering is on for the user `uid`, whose service manager then outlives the last logout."""
    name = str(uid)
    with contextlib.suppress(KeyError):  # no such user
        name = pwd.getpwuid(uid).pw_name
    return root.exists(f"{LINGER}/{name}")


def judge(*, kills: bool, is_root: bool, lingers: bool) -> Check:
    if not kills:
        return ok(NAME, "processes outlive a logout (KillUserProcesses=no)")
    if is_root:
        return ok(NAME, "processes of root outlive a logout (KillExcludeUsers=root)")
    found = "a logout ends every process of the session (KillUserProcesses=yes)"
    start = "systemd-run --scope --user edgetop run MODEL --headless"
    if lingers:
        return problem(NAME, found, "you linger, so what your own manager started goes on: start runs under it", start)
    advice = "a run that is to outlive the SSH connection must be started under your own manager"
    return problem(NAME, found, advice, f"loginctl enable-linger; {start}")


def ask(root: Root) -> bool | None:
    """Return whether a logout ends the user's processes (logind's setting KillUserProcesses), or None if unknown.

    If logind does not answer, its configuration files are read.
    """
    try:
        answer = run_command(root, *ASK)
        if answer.exit_status == 0 and answer.first_line in ("yes", "no"):
            return answer.first_line == "yes"
    except OSError:
        pass
    return _from_files(root)


def _from_files(root: Root) -> bool | None:
    """Return whether logind's configuration files set KillUserProcesses to yes, or None if no file sets it.

    Files in `logind.conf.d` override the main file. If several of them have the setting, that of the file whose name is
    last in alphabetical order is used, whatever its folder.
    """
    snippets = {name: folder for folder in FOLDERS for name in root.names(f"{folder}/logind.conf.d")}
    paths = [f"{folder}/logind.conf" for folder in FOLDERS]
    paths += [f"{folder}/logind.conf.d/{name}" for name, folder in sorted(snippets.items()) if name.endswith(".conf")]
    found = None
    for path in paths:
        for setting in root.text(path).splitlines():
            key, _, value = setting.partition("=")
            if key.strip() == "KillUserProcesses" and value.strip():
                found = value.strip().lower() in ("1", "yes", "true", "on", "y", "t")
    return found
