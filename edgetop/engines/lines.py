"""What a runtime prints from native code, cut into lines: events, never the screen."""

import os
import re

from edgetop.engines.protocol import LogLine
from edgetop.session.events import Severity

MAX_LINE = 2_000  # characters of a line that are kept
MAX_LINES_A_POLL = 50  # what a runtime in a printing loop may fill the event table with
READ_BYTES = 65_536

# Colours of a log line (ECMA-48, SGR): ONNX Runtime sends them even where there is no terminal.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Words of trouble, and the letter that stands for one in a log of ONNX Runtime ("[E:onnxruntime:")
# or of Abseil, which LiteRT uses ("E0000 00:00:").
_TROUBLE = re.compile(r"error|warn|fail|fatal|\[[WEF]:|^[WEF]\d{4} ", re.IGNORECASE)

# The stack that follows faulthandler's "Fatal Python error: Segmentation fault".
_STACK = re.compile(r'(File "|Current thread|Thread 0x|Extension modules: |<no Python frame>)')


class LineReader:
    """Lines from a non-blocking file descriptor."""

    def __init__(self, fd: int, source: str, *, grows: bool = False) -> None:
        """`grows`: a file that somebody writes to, the end of which is not the end."""
        os.set_blocking(fd, False)
        self._grows = grows
        self._fd = fd
        self._source = source
        self._rest = b""
        self._ended = False
        self.last_line = ""  # that says something: not one of a crash's stack

    def read(self) -> list[LogLine]:
        """The lines that are complete; at the end of the file, the last one too."""
        self._fill()
        *complete, self._rest = self._rest.split(b"\n")
        if self._rest and (self._ended or len(self._rest) > READ_BYTES):
            complete, self._rest = [*complete, self._rest], b""
        texts = [text for text in (_decode(line) for line in complete) if text]
        informative = [text for text in texts if not _STACK.match(text)]
        if informative:
            self.last_line = informative[-1]
        lines = [LogLine(_severity(text), self._source, text) for text in texts[:MAX_LINES_A_POLL]]
        if len(texts) > MAX_LINES_A_POLL:
            skipped = len(texts) - MAX_LINES_A_POLL
            lines.append(LogLine("warning", self._source, f"{skipped} more lines in this moment, not kept"))
        return lines

    def _fill(self) -> None:
        for _ in range(16):  # at most 1 MiB a poll, so that a flood cannot hold the conductor
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._ended = True
                return
            if not data:
                self._ended = not self._grows
                return
            self._rest += data


def _decode(line: bytes) -> str:
    text = _COLOURS.sub("", line.decode("utf-8", "backslashreplace")).strip()
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"


def _severity(text: str) -> Severity:
    return "warning" if _TROUBLE.search(text) else "info"
