"""The errors of edgetop, written for the user: what happened, where, what to do.

`edgetop.cli.main` prints every error, as one line on stderr.
"""

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgetop.session.manifest import Lost

# Errors of a path that the user gave.
UNUSABLE_PATH = (
    errno.ENAMETOOLONG, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS,
)  # fmt: skip
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

EXIT_DONE = 0
EXIT_GATE_FAILED = 1
EXIT_PROBLEM_FOUND = 1  # of `edgetop doctor`
EXIT_USAGE = 2
EXIT_ENGINE_DIED = 3
EXIT_NOT_WRITTEN = 4
EXIT_INTERRUPTED = 130


class EdgetopError(Exception):
    """An error that ends edgetop. Its message is for the user, and its exit code for scripts."""

    exit_code = EXIT_USAGE

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(f"{message} ({advice})" if advice else message)


class InputError(EdgetopError):
    """Raised if something that the user gave, such as a file or an option, cannot be used."""


class EngineDiedError(EdgetopError):
    """Raised if the engine (the process that runs the model) ended by itself during the session."""

    exit_code = EXIT_ENGINE_DIED


class OutputError(EdgetopError):
    """Raised if something could not be written: a recording (`RecordingError`), another file, or a result on stdout."""

    exit_code = EXIT_NOT_WRITTEN


class RecordingError(OutputError):
    """Raised if the recording could not be written."""

    lost: "Lost | None" = None  # what of the session is not in its recording


class ReaderLeftError(EdgetopError):
    """Raised if the reader of standard output has closed it, as `head` does.

    This is no failure, and nothing is printed.
    """

    exit_code = EXIT_DONE

    def __init__(self) -> None:
        super().__init__("the reader of the standard output has left")
