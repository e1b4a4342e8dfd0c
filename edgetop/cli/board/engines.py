"""`edgetop engines`: list the runtimes that are installed or could be, and why a runtime cannot be used."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from edgetop.cli.companions import PATH, option
from edgetop.frozen import frozen

EXAMPLES = """\b
Examples:
  edgetop engines                                        what runs here, and how to get the rest
  edgetop engines --engine-python /usr/bin/python3       what another interpreter has
  edgetop engines --json | jq -r '.engines[] | select(.usable) | .name'
"""


@click.command(
    "engines",
    params=[
        option("--engine-python", "python", type=PATH, metavar="PATH", help="Ask another interpreter."),
        option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help plugins)."),
    ],
    epilog=EXAMPLES,
)
def command(*, python: Path | None, as_json: bool) -> None:
    """List the engines: runtimes that edgetop knows, and those of plug-ins (edgetop help plugins).

    Each engine is imported in a process of its own, since an installed runtime may fail to load.
    """
    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415  --help needs none of it

    rows = list(_rows(python))
    if as_json:
        print_json({"engines": [asdict(row) for row in rows]})
        return
    print_text("\n".join(_lines(rows)))


@frozen
class Row:
    """One engine in the output of `edgetop engines --json`."""

    name: str
    suffixes: tuple[str, ...]
    package: str | None
    plugin: bool
    version: str | None
    providers: tuple[str, ...]
    usable: bool
    reason: str | None  # why it cannot be used
    fix: str | None  # a shell command that installs it


def _rows(python: Path | None) -> Iterator[Row]:
    """Yield a row for each engine that the interpreter `python` has or could have. None means this interpreter.

    Raises InputError if the interpreter cannot be started.
    """
    from edgetop.cli.running.session_parts import EXTRAS  # noqa: PLC0415  --help needs none of it
    from edgetop.doctor.machine_checks import read_inventory  # noqa: PLC0415
    from edgetop.engines.child.adapters import RUNTIMES  # noqa: PLC0415
    from edgetop.errors import InputError  # noqa: PLC0415
    from edgetop.installation import extra_command  # noqa: PLC0415

    try:
        inventory = read_inventory(str(python or sys.executable))
    except (OSError, ValueError) as error:
        raise InputError(f"{python} cannot be asked: {error}", "name an interpreter that works") from None
    for name, runtime in RUNTIMES.items():
        found = inventory["runtimes"].get(name)
        own = shlex.join([str(python), "-m", "pip", "install", runtime.package])
        yield Row(
            name,
            _suffixes(runtime.formats),
            runtime.package,
            plugin=False,
            version=found["version"] if found else None,
            providers=tuple(found["providers"]) if found else (),
            usable=found is not None and not found["error"],
            reason=found["error"] if found else "not installed",
            fix=None if found else own if python else extra_command(EXTRAS[name]),
        )
    for name, plugin in inventory["plugins"].items():
        reason = plugin["error"]
        yield Row(name, tuple(plugin["suffixes"]), plugin["package"], True, None, (), not reason, reason, None)


def _suffixes(formats: Sequence[str]) -> tuple[str, ...]:
    from edgetop.engines.formats import SUFFIXES  # noqa: PLC0415  as above

    # .ort is ONNX Runtime's own format, which other runtimes of ONNX models do not read.
    return tuple(end for end, one in SUFFIXES.items() if one in formats and (end != ".ort" or formats[0] == "onnx"))


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    from edgetop.formatting import clean  # noqa: PLC0415  as above

    width = max(len(clean(row.name)) for row in rows)
    files = max(len(clean(" ".join(row.suffixes))) for row in rows)
    for row in rows:
        if row.usable:
            said = row.version or (f"plug-in of {row.package or 'an unknown package'}" if row.plugin else "")
        else:
            said = f"{'cannot be used: ' if row.version or row.plugin else ''}{row.reason}"
        yield f"{clean(row.name):<{width}}  {clean(' '.join(row.suffixes)):<{files}}  {clean(said)}".rstrip()
        if row.fix:
            yield f"{'':<{width}}  {'':<{files}}  {clean(row.fix)}"
