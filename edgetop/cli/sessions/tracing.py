"""Reads a session and the log of a power meter, and prints the energy and power of the session's inferences."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.report_operators import OperatorFigures
from edgetop.analysis.session_report import report
from edgetop.analysis.trace_alignment import Alignment, align, compared, needs_closer_look, places
from edgetop.analysis.trace_cut import TraceCut, TraceView
from edgetop.analysis.trace_overview import TraceOverview
from edgetop.cli.choosing import recorded
from edgetop.cli.output import print_json, print_text, raise_problems
from edgetop.cli.printing.page import COLOURS, Chart, escaped, plain, refuse_html, write_page
from edgetop.errors import InputError
from edgetop.imports.power_trace import PowerTrace, TraceSpec
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.recording.reader import Recording
from edgetop.session.records import MEASURE
from edgetop.session.seconds import NS
from edgetop.wording.trace_words import trace_document, trace_lines

Ints = npt.NDArray[np.int64]

MOST_INFERENCES = 20_000_000
ONCE = 1e-3  # An operator with more calls than one has no single place in an inference.


def print_trace(
    session: str, spec: TraceSpec, *, offset_s: float | None, as_json: bool, html: Path | None, force: bool
) -> None:
    """Print the energy and power of a session's inferences, from the log of a power meter.

    `spec` describes the log. `offset_s` is the session time in s at which the log's time is 0; None to find it. `html`
    is a page to write, and `force` allows replacing it. Raises InputError if the session or the log cannot be used.
    """
    page = refuse_html(html, force=force) if html else None
    with Recording(recorded(session)) as recording:
        starts, lengths, is_measured, mark_ns = _inferences(recording)
        operators = report(Analysis.of(recording.play())).operators or ()
        if any(abs(one.calls - 1) > ONCE for one in operators):
            operators = ()
        try:
            trace = PowerTrace(spec)
            view = _cut(trace, starts, lengths, is_measured, offset_s, mark_ns, [one.share for one in operators])
        except OSError as error:
            raise InputError(f"{spec.path}: {error.strerror or error}") from None
        except ValueError as error:
            raise InputError(f"{spec.path}: {error}") from None
        for note in trace.notes:
            print_text(f"note: {spec.path.name}: {note}", err=True)
        if page:
            _write(page, recording.manifest.name, view, operators, trace.reversing)
        if as_json:
            found = trace_document(view, operators, trace.reversing)
            print_json({"session": recording.manifest.name, "log": str(spec.path), **found})
        elif page:
            print_text(str(page.path.absolute()))
        else:
            print_text("\n".join(trace_lines(view, operators, trace.reversing)))
        raise_problems(recording.problems, "the rest was used")


def _inferences(recording: Recording) -> tuple[Ints, Ints, npt.NDArray[np.bool_], int | None]:
    """Return `(starts, lengths, is_measured, mark)`. The first three have a value for each inference.

    `starts` and `lengths` are in ns. `is_measured` is false during warm-up, for example. `mark` is the time in ns of
    the first mark that the user set, or None. Raises InputError if the session has several streams (models or threads
    at the same time), or if its inferences were not recorded individually.
    """
    starts, lengths, measured, mark_ns, count = [], [], [], None, 0
    for batch in recording.play(inferences=True):
        runs = batch.inferences
        if len(runs) and runs["stream"].any():
            raise InputError("a trace can be cut by the inferences of one stream only", "record a session with one")
        count += len(runs)
        if count > MOST_INFERENCES:
            raise InputError(f"the session has more than {MOST_INFERENCES} inferences", "export a part of it")
        starts.append(runs["t_ns"].astype(np.int64))
        lengths.append(runs["latency_ns"].astype(np.int64))
        measured.append(runs["phase"] == MEASURE)
        if mark_ns is None:
            mark_ns = next((event.t_ns for event in batch.events if event.kind == "mark"), None)
    if not count:
        raise InputError("the session has no single inferences", "record it without --no-raw")
    joined = np.concatenate(starts), np.concatenate(lengths), np.concatenate(measured)
    order = np.argsort(joined[0], kind="stable")
    order = order[joined[1][order] > 0]
    return joined[0][order], joined[1][order], joined[2][order], mark_ns


def _cut(
    trace: PowerTrace, starts: Ints, lengths: Ints, is_measured: npt.NDArray[np.bool_], offset_s: float | None,
    mark_ns: int | None, shares: Sequence[float],
) -> TraceView:  # fmt: skip
    overview, edge_s, before = TraceOverview(starts, lengths), None, True
    for piece in trace.pieces():
        overview.add(piece.t_s, piece.watts)
        if piece.marked is not None and edge_s is None:
            rises = np.flatnonzero(piece.marked & ~np.concatenate([[before], piece.marked[:-1]]))
            edge_s, before = (float(piece.t_s[rises[0]]) if len(rises) else None), bool(piece.marked[-1])
    if offset_s is None and trace.has_marker and edge_s is None:
        raise ValueError("its marker never rises")
    alignment = _by_pattern(trace, overview, starts, lengths)
    if offset_s is not None:
        alignment = compared(Alignment(offset_s, how="offset"), alignment, starts, lengths)
    elif edge_s is not None:
        marked_s = (int(starts[0]) if mark_ns is None else mark_ns) / NS - edge_s
        alignment = compared(Alignment(marked_s, how="marker"), alignment, starts, lengths)
    cut = TraceCut(alignment, starts[is_measured], lengths[is_measured])
    if alignment.is_certain:
        for piece in trace.pieces():
            cut.add(piece.t_s, piece.watts)
    view = cut.view(shares)
    if view.unknown and overview.mean_w < 0:
        return replace(view, unknown="negative", alignment=replace(alignment, pattern=None))
    return view


def _by_pattern(trace: PowerTrace, overview: TraceOverview, starts: Ints, lengths: Ints) -> Alignment:
    """Return the alignment by the pattern of the inferences. `overview` is of the whole trace.

    If the log is much longer than the session, it is read once more.
    """
    windows = overview.windows
    if needs_closer_look(overview.overview, starts, lengths):
        closer = TraceOverview(starts, lengths, places(overview.overview, starts, lengths)[0])
        for piece in trace.pieces():
            closer.add(piece.t_s, piece.watts)
        windows = closer.windows
    return align(overview.overview, windows, starts, lengths)


def _write(page: NamedOutput, name: str, view: TraceView, operators: Sequence[OperatorFigures], reversing: str) -> None:
    text = "\n".join(escaped(line) for line in trace_lines(view, operators, reversing))
    charts = [_waveform(view, operators)] if view.waveform_w else []
    write_page(page, f"power trace of {name}", [f"<pre>{text}</pre>"], charts)


def _waveform(view: TraceView, operators: Sequence[OperatorFigures]) -> Chart:
    """Return a chart of the mean power over the course of an inference, with the borders of the operators."""
    from bokeh.models import Span  # noqa: PLC0415
    from bokeh.plotting import figure  # noqa: PLC0415

    chart = figure(
        title="mean power over an inference, W", height=320, sizing_mode="stretch_width",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save", x_axis_label="% of an inference",
        tooltips=[("at", "$x{0.0} %"), ("power", "$y{0.000} W")],
    )  # fmt: skip
    x = (np.arange(len(view.waveform_w)) + 0.5) / len(view.waveform_w) * 100
    chart.line(x, view.waveform_max_w, color=COLOURS[1], line_alpha=0.6, legend_label="highest sample")
    chart.line(x, view.waveform_w, color=COLOURS[0], line_width=2, legend_label="mean")
    for border in np.cumsum([one.share for one in operators])[:-1].tolist() if operators else []:
        chart.add_layout(Span(location=100 * border, dimension="height", line_color="#7f7f7f", line_dash="dotted"))
    return plain(chart)
