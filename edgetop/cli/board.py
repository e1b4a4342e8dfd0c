"""The board a session runs on: the one there is, a captured one (`--sysroot`), or the virtual one of `edgetop demo`."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from edgetop.cli.request import Options
from edgetop.cli.sysroot import board_root
from edgetop.errors import InputError
from edgetop.sensors.board import read_board
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.protocol import Found
from edgetop.sensors.root import Root
from edgetop.session.manifest import Board


class BoardInUse(Protocol):
    @property
    def root(self) -> Root:
        """Its files."""

    @property
    def page_path(self) -> str | None:
        """What the engine must obey to be on this board; None: it is on it anyway."""

    def identity(self) -> Board: ...

    def discover(self) -> Found:
        """Its sensors."""

    def engine_started(self, pid: int) -> None: ...

    def live(self, tell: Callable[[str], None]) -> None:
        """The session begins; `tell` takes what happens to the board, from any thread."""


@dataclass(frozen=True, slots=True)
class FileBoard:
    """What its files say is all there is to it."""

    root: Root
    page_path: None = None

    def identity(self) -> Board:
        return read_board(self.root)

    def discover(self) -> Found:
        return discover_board(self.root)

    def engine_started(self, pid: int) -> None:
        """It knows by itself."""

    def live(self, tell: Callable[[str], None]) -> None:
        """It does by itself."""


@contextlib.contextmanager
def open_board(options: Options) -> Iterator[BoardInUse]:
    """Raises InputError where `--sysroot` names no folder, and where a virtual board finds no place."""
    scenario = options.get("scenario")
    if scenario is None:
        yield FileBoard(board_root(options["sysroot"]))
        return
    from edgetop.simulation.board import VirtualBoard  # noqa: PLC0415  no session but a demo needs it

    board = VirtualBoard(scenario, options["speed"], ambient_c=options["ambient"], cpus=options["engine_cpus"] or ())
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(board)
        except OSError as error:
            raise InputError(
                f"the virtual board cannot be made: {error.strerror}", "its files go where XDG_RUNTIME_DIR says"
            ) from None
        yield board
