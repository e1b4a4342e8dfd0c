"""Questions to the VideoCore firmware, by `vcgencmd`.

Each is a fork (about 10 ms on a Pi) and a turn at a mailbox that the kernel serialises and
gives up on after 1 s (drivers/firmware/raspberrypi.c), so nobody asks more than once a
second. Its errors come on standard output (raspberrypi/utils, vcgencmd/vcgencmd.c).
"""

from edgetop.sensors.commands import run_command
from edgetop.sensors.protocol import Missing
from edgetop.sensors.root import Root

COMMAND = "vcgencmd"
CADENCE_S = 2.0
TIMEOUT_S = 1.5  # a little more than the kernel's own patience with the firmware

JOIN_VIDEO = "sudo usermod -aG video $USER, then log in again"
INSTALL = "sudo apt install raspi-utils (Raspberry Pi OS) or libraspberrypi-bin (Ubuntu)"


class NoAnswerError(OSError):
    """The firmware could not be asked. `fix` is what would change that."""

    def __init__(self, why: str, fix: str | None = None) -> None:
        super().__init__(why)
        self.fix = fix


class NotRegisteredError(NoAnswerError):
    """The firmware can be asked, but does not know this question."""


def ask(root: Root, *question: str) -> str:
    """What the firmware answers. Raises NoAnswerError, or another OSError where the command cannot be run."""
    try:
        output = run_command(root, COMMAND, *question, timeout_s=TIMEOUT_S)
    except FileNotFoundError:
        raise NoAnswerError(f"there is no {COMMAND}", INSTALL) from None
    asked = " ".join((COMMAND, *question))
    if "/dev/vcio" in output.text or "VCHI initialization failed" in output.text:
        raise NoAnswerError(f"{COMMAND} may not open /dev/vcio: that is for root and the group video", JOIN_VIDEO)
    if "Command not registered" in output.text:
        raise NotRegisteredError(f"this board's firmware does not know {asked!r}")
    if output.exit_status != 0:
        raise NoAnswerError(f"{asked!r} ended with status {output.exit_status}: {output.first_line[:80]!r}")
    return output.text


def missing(what: str, error: OSError | ValueError) -> Missing:
    """What cannot be read because the firmware gave that error."""
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return Missing(what, why, getattr(error, "fix", None))
