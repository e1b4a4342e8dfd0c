"""A driver for Textual that survives the loss of its terminal. It is based on Textual's Linux driver.

A hang-up must end only the screen. In Textual's driver, a failed write to the terminal ends the thread that writes, and
then the app waits for that thread for ever. The kernel also sends SIGCONT with a hang-up (tty_ioctl(4),
disassociate_ctty), which makes Textual's driver start its threads again.
"""

import contextlib
import os
import select
import signal
import socket
import threading
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, TextIO

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from edgetop import standard_streams

READ_BYTES = 4096
LOOK_S = 0.1


class SteadyDriver(LinuxDriver):
    """A driver that survives the loss of its terminal. It then sets `terminal_lost` of the app to True."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._steady_app = app
        self._file = _SteadyFile(standard_streams.screen(), self._lose_terminal)  # type: ignore[assignment]
        self.exit_event = self._ended = _WakingEvent()
        self._batch: list[str] | None = None
        self._was_measured = not self._steady_app.measured_glyphs
        signal.signal(signal.SIGCONT, self._continued)

    @contextlib.contextmanager
    def batched(self) -> Iterator[None]:
        """Collect all output that is written in this context, and send it as one piece at the end.

        Each piece wakes the thread that writes, so one piece is cheaper than many.
        """
        self._batch = []
        try:
            yield
        finally:
            text, self._batch = "".join(self._batch), None
            if text:
                self.write(text)

    def write(self, data: str) -> None:
        if self._batch is None:
            super().write(data)
        else:
            self._batch.append(data)

    def start_application_mode(self) -> None:
        """Take over the terminal, at the start and after Ctrl+Z. Its content is then unknown, so all is drawn again.

        The first time, also ask the terminal how wide it draws box and block characters.
        """
        self._steady_app.terminal_buffer.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if not self._was_measured:
            self._was_measured = True
            # The first drawing covers these glyphs. Nothing waits for the reply, which arrives like a key.
            self.write(f"\x1b[H{self._steady_app.measured_glyphs}\x1b[6n\x1b[H\x1b[J")

    def _get_terminal_size(self) -> tuple[int, int]:
        """Return (columns, lines) of the terminal on which the screen is. Textual calls this method.

        Textual's own method asks standard output, which may be a file.
        """
        with contextlib.suppress(OSError):
            return os.get_terminal_size(self.fileno)
        return super()._get_terminal_size()

    def _lose_terminal(self) -> None:
        self._steady_app.terminal_lost = True

    def _continued(self, *_: object) -> None:
        """Handle SIGCONT: draw the screen again, but only if SIGTSTP (Ctrl+Z) suspended it before."""
        if self._must_signal_resume:
            self._sigcont_application()

    def run_input_thread(self) -> None:
        """Read keys until the driver ends or the terminal is lost.

        Textual's method wakes ten times a second. This method sleeps until input arrives. It wakes regularly only after
        an Esc, which may be a key or begin a longer sequence.
        """
        parser, decoder = XTermParser(), getincrementaldecoder("utf-8")("replace")
        while not self.exit_event.is_set():
            may_go_on = parser._timeout_time is not None  # noqa: SLF001  an Esc may be a key, or begin one
            ready, _, _ = select.select([self.fileno, self._ended.fileno()], [], [], LOOK_S if may_go_on else None)
            if self.fileno in ready:
                data = self._read()
                if not data:
                    return
                text = decoder.decode(data)
                for message in parser.feed(text) if text else ():
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def _read(self) -> bytes:
        with contextlib.suppress(OSError):
            if data := os.read(self.fileno, READ_BYTES):
                return data
        self._lose_terminal()
        return b""


class _WakingEvent(threading.Event):
    """An event with a file descriptor. Setting the event makes the descriptor readable, which wakes select(2)."""

    def __init__(self) -> None:
        super().__init__()
        self._reader, self._writer = socket.socketpair()

    def fileno(self) -> int:
        return self._reader.fileno()

    def set(self) -> None:
        super().set()
        self._writer.send(b"\0")

    def clear(self) -> None:
        super().clear()
        self._reader.recv(READ_BYTES)


class _SteadyFile:
    """A file that writes to the terminal. It drops what cannot be written, and then calls `on_loss`."""

    def __init__(self, file: TextIO, on_loss: Any) -> None:
        self._file = file
        self._on_loss = on_loss

    def write(self, text: str) -> None:
        self._try(self._file.write, text)

    def flush(self) -> None:
        self._try(self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()

    def _try(self, action: Any, *arguments: str) -> None:
        try:
            action(*arguments)
        except (OSError, ValueError):
            self._on_loss()
