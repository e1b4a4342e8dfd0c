"""The entry of the program. Only here are errors printed and exit codes chosen."""

import contextlib
import errno
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from edgetop import standard_streams
from edgetop.errors import (
    DISK_FULL,
    EXIT_DONE,
    EXIT_GATE_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NOT_WRITTEN,
    EXIT_USAGE,
    UNUSABLE_PATH,
    EdgetopError,
    OutputError,
    ReaderLeftError,
)

if TYPE_CHECKING:
    import click

# Click's names of types, as in "'1-4' is not a valid integer range", and what to say instead.
_TYPES = (
    ("is not a valid integer range", "is not a whole number"),
    ("is not a valid integer", "is not a whole number"),
    ("is not a valid float range", "is not a number"),
    ("is not a valid float", "is not a number"),
)
NEEDS_64_BITS = "needs a 64-bit system, such as the 64-bit image of Raspberry Pi OS: see edgetop/docs/boards.md"


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command in `arguments`, and exit with its code. None means the arguments of this process.

    An error is printed as one line.
    """
    standard_streams.guard()
    arguments = sys.argv[1:] if arguments is None else arguments
    code = EXIT_DONE
    try:
        if sys.maxsize < 2**32:
            code = _complain(NEEDS_64_BITS, EXIT_USAGE)
        elif arguments in (["--help"], ["-h"]):
            from edgetop.cli.overview import help_text  # noqa: PLC0415  without Click, which takes most of the time

            sys.stdout.write(help_text())
        else:
            code = _run(arguments)
        sys.stdout.flush()
    except ReaderLeftError:
        pass
    except OutputError as error:
        code = _complain(str(error), error.exit_code)
    except KeyboardInterrupt:  # while Click is loaded, which takes a second on a small board
        code = _complain("interrupted", EXIT_INTERRUPTED)
    sys.stderr.flush()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    import click  # noqa: PLC0415  --help does without

    from edgetop.cli.command_group import edgetop  # noqa: PLC0415

    try:
        # Click's type depends on standalone_mode.
        result: Any = edgetop.main(arguments, prog_name="edgetop", standalone_mode=False)
        code = result if isinstance(result, int) else EXIT_DONE
    except click.ClickException as error:
        code = _complain(_one_line(error, arguments), EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        with contextlib.suppress(ReaderLeftError):
            sys.stdout.flush()  # else remaining output of the screen would overwrite the message
        code = _complain("interrupted", EXIT_INTERRUPTED)
    except ReaderLeftError as error:
        code = error.exit_code
    except EdgetopError as error:
        code = _complain(str(error), error.exit_code)
    except SystemExit:  # Click ends shell completion with it
        code = EXIT_DONE
    except MemoryError as error:
        code = _complain(f"not enough memory: {error or 'an allocation was refused'}", EXIT_USAGE)
    except OSError as error:
        code = _refused(error)
    return _with_faults(code)


def _with_faults(code: int) -> int:
    """Print the internal errors of the analysis, if there are any. Return the exit code.

    Without internal errors, return `code`. With internal errors, return 4 if `code` means success, a failed gate or an
    interruption, because the result is incomplete. Return any other `code` unchanged.
    """
    analysis = sys.modules.get("edgetop.analysis.faults")
    if analysis is None or not analysis.occurred:
        return code
    from edgetop.cli import internal_errors  # noqa: PLC0415

    faults = tuple(analysis.occurred.values())
    analysis.occurred.clear()
    is_lesser = code in (EXIT_DONE, EXIT_GATE_FAILED, EXIT_INTERRUPTED)
    return _complain(internal_errors.words(faults), EXIT_NOT_WRITTEN if is_lesser else code)


def _refused(error: OSError) -> int:
    """Print an error of the operating system, such as a full disk, and return the exit code.

    An error that this function does not know is raised again.
    """
    if error.errno == errno.EIO:  # the terminal has closed
        return EXIT_DONE
    if error.filename is not None and error.errno in UNUSABLE_PATH:
        return _complain(f"{error.filename}: cannot be used: {error.strerror}", EXIT_USAGE)
    if error.errno in DISK_FULL:
        return _complain(f"{error.filename or 'a file'}: cannot be written: {error.strerror}", EXIT_NOT_WRITTEN)
    from pathlib import Path  # noqa: PLC0415  --help does without

    try:
        Path.cwd()
    except FileNotFoundError:
        return _complain("the current folder no longer exists (cd to another one)", EXIT_USAGE)
    raise error


def _complain(message: str, code: int) -> int:
    from edgetop.formatting import clean  # noqa: PLC0415

    sys.stderr.write(f"edgetop: {clean(message)}\n")
    return code


def _one_line(error: "click.ClickException", arguments: list[str]) -> str:
    """Return click's message and hint as one line: `no such option: --duratoin (did you mean --duration?)`."""
    import click  # noqa: PLC0415

    if isinstance(error, click.NoSuchOption):
        command = error.ctx.command_path if error.ctx else "edgetop"
        hint = f"did you mean {error.possibilities[0]}?" if error.possibilities else f"see {command} --help"
        # Click names the first letter only of an argument such as -soak, which may be a name.
        whole = next((each for each in arguments if _is_perhaps_name(each, error.option_name)), None)
        if whole and error.ctx and any(f"-{whole}" in each.opts for each in error.ctx.command.params):
            return f"no such option: {whole} (did you mean -{whole}?)"
        if whole:
            return f"no such option: {whole} (a name that begins with a dash stands after --: {command} -- {whole})"
        return f"no such option: {error.option_name} ({hint})"
    message = " ".join(error.format_message().split()).rstrip(".")
    for of_click, ours in _TYPES:
        message = message.replace(of_click, ours)
    return message[:1].lower() + message[1:]


def _is_perhaps_name(argument: str, option: str) -> bool:
    """Whether an argument in which click met an unknown option of one letter may be a name, such as `-soak`.

    >>> [_is_perhaps_name(argument, "-s") for argument in ("-soak", "-s", "--soak", "-soak=1", "soak")]
    [True, False, False, False, False]
    """
    is_word = argument.startswith("-") and not argument.startswith("--") and "=" not in argument
    return is_word and len(option) == 2 and len(argument) > 2 and option[1] in argument
