"""Makes a bundle, one ZIP file: a redacted copy of a session, reports made from this copy, its board, and versions.

All files of the bundle are made from the redacted copy. So nothing is redacted twice or forgotten.
"""

import importlib.util
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath

from edgetop import formatting
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.cli.board.redaction import Redaction
from edgetop.cli.choosing import recorded
from edgetop.cli.output import print_text, raise_problems
from edgetop.cli.printing.report_text import summary
from edgetop.cli.scratch_folder import ELSEWHERE, scratch_folder
from edgetop.cli.versions import verbose_lines
from edgetop.errors import InputError
from edgetop.files import write_file
from edgetop.formatting import clean
from edgetop.installation import extra_command
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.recording.export.redacted_copy import copy_redacted
from edgetop.recording.reader import Recording
from edgetop.recording.session_folder import FILE_MODE, SUFFIX, is_live
from edgetop.sensors.root import Root
from edgetop.session import manifest_codec
from edgetop.session.manifest import Manifest, Model, Watched
from edgetop.session.typed_json import Document
from edgetop.wording.report_document import to_json

PAGE, TEXT, JSON, BOARD, VERSIONS, README = (
    "report.html", "report.txt", "report.json", "board.json", "versions.txt", "README.txt"
)  # fmt: skip
WHAT = {
    PAGE: "the report with charts", TEXT: "the report", JSON: "the report for programs", BOARD: "the board and sensors",
    VERSIONS: "versions of edgetop, of the session's runtime and of packages", README: "what is in this file",
}  # fmt: skip
_NO_TEXTS = ("id", "created_utc", "state", "followed_by", "histogram", "format_version")  # parts without foreign texts
REMOVED = (
    "names of users and of this machine, addresses, serial numbers and paths; arguments of a watched program. "
    "Labels, notes and names of models and operators stay"
)


def make_bundle(session: str | None, output: Path | None, *, force: bool) -> None:
    """Write one ZIP file with a redacted session and its reports, and print what is in it.

    `session` is the name of a session; None means the newest. `output` is the path of the file; None means a name
    made from the session's name. Raises InputError and OutputError.
    """
    folder = recorded(session)
    name = folder.name.removesuffix(SUFFIX)
    if is_live(folder):
        raise InputError(f"{name}: is being recorded", "edgetop stop ends it; bundle it then")
    with Recording(folder) as recording:  # recovers a session whose writer died
        redaction = Redaction(Root(), _names_in_tables(recording))
        sent_name = redaction.text(_in_utc(name, recording.manifest.created_utc))
        path = output or Path(f"{sent_name}-bundle.zip")
        target = NamedOutput.of_option("--output", path, force=force, elsewhere="choose another path with -o")
        with scratch_folder("bundle") as place:
            root = place / "bundle"
            root.mkdir()
            manifest = redacted_manifest(recording.manifest, redaction)
            inside = sent_name + SUFFIX
            left_out = copy_redacted(folder, root / inside, manifest, redaction.foreign)
            _write_reports(root, root / inside, redaction)
            lines = [*_contents(root, inside), *_left_out(left_out), f"removed: {REMOVED}."]
            write_file(root / README, "\n".join(lines) + "\n")
            with target.stream(is_text=False) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for one in sorted(one for one in root.rglob("*") if one.is_file()):
                    _add(archive, f"{PurePath(inside).stem}/{one.relative_to(root)}", one)
        size = formatting.size(path.stat().st_size) if path.is_file() else ""
        print_text(
            "\n".join((f"{path}  {size}", *(f"  {line}" for line in lines), "Look through it before you send it."))
        )
        raise_problems(recording.problems, "the rest is in the bundle")


def _names_in_tables(recording: Recording) -> set[str]:
    """Return the names of operators, inputs and sensors, which stay: tables that are copied as they are have them."""
    bursts = (burst for part in recording.rows("operators") for burst in part)
    manifest = recording.manifest
    return {
        *(one.name for burst in bursts for one in burst.infos),
        *(one.name for one in manifest.model.inputs),
        *(one.id for one in manifest.sensors),
    }


def _add(archive: zipfile.ZipFile, name: str, file: Path) -> None:
    """Add a file to the archive as `name`, without its time.

    A ZIP file has local times, which tell the time zone beside the session's times in UTC.
    """
    member = zipfile.ZipInfo(name)
    member.compress_type, member.external_attr, member.file_size = (
        zipfile.ZIP_DEFLATED,
        FILE_MODE << 16,
        file.stat().st_size,
    )
    with file.open("rb") as source, archive.open(member, "w") as sink:
        shutil.copyfileobj(source, sink)


def _in_utc(name: str, created_utc: str) -> str:
    """Return the name of a session with its time of day in UTC, because local time tells the time zone.

    Only a name that edgetop made from the model and the time has a time of day.

    >>> _in_utc("demo-20261129-072050-2", "2026-11-29T01:50:50.914506Z"), _in_utc("soak-42", "2026-11-29T01:50:50Z")
    ('demo-20261129-015050-2', 'soak-42')
    """
    digits = re.sub(r"\D", "", created_utc)
    return re.sub(r"-\d{8}-\d{6}(?=-\d+$|$)", f"-{digits[:8]}-{digits[8:14]}", name)


def _sent_command(manifest: Manifest) -> tuple[str, ...]:
    """Return the command line of a session with names of files in place of paths, and without a program's arguments."""
    command = manifest.command
    if manifest.watched:
        given = manifest.watched.command
        own = len(command) - len(given)
        is_at_end = own > 0 and command[own:] == given
        command = (*(command[:own] if is_at_end else command[:1]), *(PurePath(one).name for one in given[:1]))
    sensors = {one.id for one in manifest.sensors}  # which have a slash, too

    def sent(word: str) -> str:
        is_path = "/" in word and "=" not in word and "://" not in word and word not in sensors
        return PurePath(word).name if is_path else word

    return tuple(map(sent, command))


def redacted_manifest(manifest: Manifest, redaction: Redaction) -> Document:
    """Return the manifest (a session's description) as JSON, without texts that identify a person, board or network."""
    watched = manifest.watched
    if watched:
        program = PurePath(watched.command[0]).name if watched.command else ""
        streams = tuple(replace(one, name=PurePath(one.name).name) for one in watched.streams)
        container = watched.container and replace(
            watched.container, image=PurePath(watched.container.image).name, image_id=""
        )
        watched = replace(watched, command=(program,), streams=streams, container=container)
    plain = replace(
        manifest,
        name=_in_utc(manifest.name, manifest.created_utc),
        command=_sent_command(manifest),
        model=_named(manifest.model) if watched is None else _watched_model(manifest.model, watched),
        clock=replace(manifest.clock, boot_id=None),
        load=replace(manifest.load, input=PurePath(manifest.load.input).name),
        watched=watched,
        ab=manifest.ab
        and replace(
            manifest.ab,
            variants=tuple(replace(one, model=_named(one.model), options="") for one in manifest.ab.variants),
        ),
    )
    document: Document = manifest_codec.to_json(plain)
    redacted = redaction.document(document)
    if "labels" in document:
        redacted["labels"] = redaction.foreign(document["labels"])
    redacted.update((key, document[key]) for key in _NO_TEXTS if key in document)
    return redacted


def _named(model: Model) -> Model:
    return replace(model, path=PurePath(model.path).name)


def _watched_model(model: Model, watched: Watched) -> Model:
    """Return the model of a watched program with a name without folders. `watched` has redacted names.

    Until the program uses a model, the model's path is the command line of the program, which may hold secrets.
    """
    name = PurePath(model.path).name
    return replace(model, path=name if name in {one.name for one in watched.streams} else "".join(watched.command))


def _write_reports(root: Path, session: Path, redaction: Redaction) -> None:
    with Recording(session) as recording:
        analysis = Analysis.of(recording.play())
        result = report(analysis)
        write_file(root / TEXT, summary(result) + "\n")
        write_file(root / JSON, json.dumps(to_json(result), indent=1))
        document = manifest_codec.to_json(recording.manifest)
        write_file(root / BOARD, json.dumps({"board": document["board"], "sensors": document.get("sensors")}, indent=1))
        engine = result.session.engine
        ran = f"session   edgetop {result.session.edgetop_version}, {engine.runtime or '-'} {engine.version or ''}"
        write_file(root / VERSIONS, redaction.text("\n".join((ran.rstrip(), *verbose_lines()))) + "\n")
        if importlib.util.find_spec("bokeh") is not None:
            from edgetop.cli.printing.report_page import write_report  # noqa: PLC0415  loads Bokeh

            write_report(NamedOutput(root / PAGE, elsewhere=ELSEWHERE), analysis, result)


def _contents(root: Path, session: str) -> Iterator[str]:
    for name, what in WHAT.items():
        if (root / name).is_file():
            yield f"{name:<13} {what}"
    yield f"{clean(session)}: the session, for edgetop replay, report and compare"
    if not (root / PAGE).is_file():
        yield f"without a page, which needs Bokeh: {extra_command('html')}"


def _left_out(names: list[str]) -> Iterator[str]:
    if names:
        yield f"left out: {', '.join(names)}, which may hold anything"
