"""A dialog on the process that takes the CPU from the run. It can lower the priority of that process or end it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgetop.formatting import clean, duration, percent
from edgetop.ui.screen_settings import OtherProcess, Processes

if TYPE_CHECKING:
    from edgetop.ui.monitor_screen import MonitorScreen

KINDS = ("slowdown-began", "slowdown-ended")  # kinds of events that may name such a process


def open_process(screen: "MonitorScreen") -> None:
    """Show the process that takes the CPU from the run, or say why there is none to show.

    It is the process that the slowdown under the cursor names, else the present state, else the latest slowdown.
    """
    processes, name = screen.settings.processes, _named(screen)
    if processes is None:
        screen.report("processes can be shown only by the screen of a run on this machine", seconds=3)
    elif not name:
        screen.report("no slowdown names a process", seconds=3)
    elif (found := processes.find(name)) is None:
        screen.report(f"{clean(name)}: no process with this name runs now", seconds=3)
    else:
        _show(screen, processes, found)


def _named(screen: "MonitorScreen") -> str:
    """Return the name of the process that takes the CPU from the run, or "" if none is known.

    The name comes from the slowdown under the cursor. If that names no process, the name comes from the present state,
    or else from the latest slowdown that names one.
    """
    item, view = screen.chosen_pane.item, screen.view.slowdowns
    chosen = [of for of in view.slowdowns if item is not None and item.t_ns in (of.start_ns, of.end_ns)]
    now = (view.contended_now,) if view.contended_now else ()
    clues = [clue for of in chosen for clue in of.evidence]
    clues += [*now, *(clue for of in reversed(view.slowdowns) for clue in of.evidence)]
    kinds = ("process", "process-gpu", "process-now", "process-memory")
    return next((clue.name for clue in clues if clue.kind in kinds), "")


def _show(screen: "MonitorScreen", processes: Processes, found: OtherProcess) -> None:
    from edgetop.ui.dialogs import Choice, ChoiceDialog  # noqa: PLC0415  not before it is opened

    ascii_only = screen.characters.ascii_only
    about = "\n".join(
        clean(text, ascii_only=ascii_only)
        for text in (
            found.command,
            f"process {found.pid} of {found.user}, niceness {found.niceness}",
            f"CPU {percent(found.cpu_pct / 100)} of a core since its start {duration(found.age_s * 1e9)} ago",
        )
    )
    choices: list[Choice[tuple[str, Callable[[OtherProcess], str]]]] = [Choice("K,q", "", None)]
    below = f"\n\nit belongs to {clean(found.user)}: only that user and root may change it"
    if found.may_control:
        choices = [
            Choice("l", "lower its priority", ("lower the priority of", processes.lower_priority)),
            Choice("t", "end it (SIGTERM)", ("end", processes.end)),
            *choices,
        ]
        below = ""
    dialog = ChoiceDialog("The process that slows the run", choices, above=about, below=f"{below}\nEsc  close")
    screen.app.push_screen(dialog, lambda chosen: _ask(screen, found, *chosen) if chosen else None)


def _ask(screen: "MonitorScreen", found: OtherProcess, what: str, run: Callable[[OtherProcess], str]) -> None:
    from edgetop.ui.dialogs import Choice, ChoiceDialog  # noqa: PLC0415  as above

    name = clean(found.name, ascii_only=screen.characters.ascii_only)
    question = f"{what} process {found.pid} {name}?"
    choices = [Choice("y", "yes", run), Choice("n,q", "", None)]
    dialog = ChoiceDialog(question[0].upper() + question[1:], choices, below="\nEsc  no")
    screen.app.push_screen(dialog, lambda act: screen.report(clean(act(found)), seconds=5) if act else None)
