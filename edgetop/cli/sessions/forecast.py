"""`edgetop forecast`: predict throttling at another ambient temperature."""

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli.companions import option
from edgetop.cli.options import celsius
from edgetop.errors import InputError
from edgetop.formatting import plain
from edgetop.session.typed_json import Document

if TYPE_CHECKING:
    from edgetop.analysis.forecast.elsewhere import Elsewhere
    from edgetop.analysis.forecast.model import Estimate
    from edgetop.lake.fared import Fared
    from edgetop.recording.reader import Recording
    from edgetop.session.manifest import Manifest

OPTIONS = (
    option("--ambient", type=celsius, required=True, metavar="35C", help="Ambient temperature to forecast for."),
    option("--lake", "target", metavar="TARGET", help="Also print how accurate such forecasts were in this lake."),
    option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


@click.command("forecast", params=[*OPTIONS])
@click.argument("session", required=False, shell_complete=completion.sessions)
def command(session: str | None, *, ambient: float, target: str | None, as_json: bool) -> None:
    """Forecast from SESSION whether its board would throttle at another ambient temperature.

    SESSION must be a run with --ambient and --enclosure that was long enough for the temperature to settle. With
    --idle-baseline, the sustained throughput is forecast too. Without SESSION, use the newest.

    \b
    Examples:
      edgetop run model.onnx --duration 20m --idle-baseline 1m --ambient 22C --enclosure 'closed box'
      edgetop forecast --ambient 40C
      edgetop forecast soak-42 --ambient 35C --lake s3://boards/lake --json
    """
    from edgetop.cli.choosing import recorded  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.output import print_json, print_text, raise_problems  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415

    with Recording(recorded(session)) as recording:
        found, throughput_hz = _forecast(recording, ambient)
        record = None
        if target:
            from edgetop.lake.fared import fared  # noqa: PLC0415
            from edgetop.lake.place import TRIES_OF_READER, Place  # noqa: PLC0415

            record = fared(Place(target, tries=TRIES_OF_READER))
        if as_json:
            print_json(_document(found, throughput_hz, recording.manifest, record))
        else:
            simulated = "SIMULATED " if recording.manifest.board.simulated else ""
            print_text("\n".join([simulated + one for one in _lines(found, throughput_hz)]))
            if record:
                print_text(_fared_line(record))
        raise_problems(recording.problems, "the rest was used")
        if found.throttles is None:
            from edgetop.wording.forecast_words import silence_words  # noqa: PLC0415

            raise InputError(f"no forecast at {ambient:g} C: {silence_words(found.silence)}", "edgetop help forecast")


def _forecast(recording: "Recording", ambient_c: float) -> "tuple[Elsewhere, float | None]":
    """Return `(forecast, throughput)`. The forecast is for a room temperature of `ambient_c` in °C.

    The throughput is in Hz, from the time before the first throttling; None if unknown.

    If the session never throttled, the throughput is that of the whole session. Raises InputError if no forecast is
    possible.
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415
    from edgetop.analysis.forecast.elsewhere import UnsuitableError, elsewhere  # noqa: PLC0415
    from edgetop.recording.rows import WHOLE  # noqa: PLC0415
    from edgetop.wording.forecast_words import unsuitable_words  # noqa: PLC0415

    whole = Analysis.of(recording.play())
    until_ns = whole.progress.measured_until_ns
    span, spans = WHOLE, whole.throttles.view().spans
    throughput = whole.totals()
    if spans and spans[0].start_ns < until_ns:
        until_ns = spans[0].start_ns
        span = replace(WHOLE, end_ns=until_ns)
        throughput = Analysis.of(recording.play(span=span)).totals()
    try:
        found = elsewhere(recording.play(span=span), recording.manifest, ambient_c, until_ns)
    except UnsuitableError as error:
        why = unsuitable_words(error, ambient_c)
        raise InputError(f"{recording.manifest.name}: {why}", "edgetop help forecast") from None
    return found, throughput.throughput_hz if throughput else None


def _lines(found: "Elsewhere", throughput_hz: float | None) -> list[str]:
    from edgetop.wording.forecast_words import celsius_words, share_silence_words, time_words  # noqa: PLC0415

    lines = [f"at {found.ambient_c:g} C ambient (measured at {found.measured_at_c:g} C):"]
    steady = f"steady {celsius_words(found.steady_c)}" if found.steady_c else "steady temperature not known"
    if found.throttles is False:
        lines.append(f"will not throttle at this load: {steady}")
    elif found.throttles and found.trip_after_s and found.trip_c is not None:
        fan = " at this speed of the fan" if found.fan_can_rise else ""
        lines.append(f"throttles at {found.trip_c:g} C after {time_words(found.trip_after_s)}{fan}; without, {steady}")
    else:
        lines.append(steady)
    if found.share is None:
        return (
            [*lines, f"sustained throughput not known: {share_silence_words(found.share_silence)}"]
            if found.throttles
            else lines
        )
    low, high = found.share
    rate = "" if throughput_hz is None else f": {plain(low * throughput_hz)} to {plain(high * throughput_hz)} a second"
    share = "all of the throughput" if low == high == 1 else f"{100 * low:.0f} to {100 * high:.0f} % of the throughput"
    return [*lines, f"sustained: {share}{'' if low == high == 1 and not rate else rate}"]


def _fared_line(record: "Fared") -> str:
    if not record.cases:
        return "no two sessions of this lake can test such a forecast"
    steady = f"; steady temperature in the range in {record.inside} of {record.measured}" if record.measured else ""
    told = f"{record.right} of {record.told} right, {record.cases - record.told} silent"
    return f"such forecasts in this lake: {told}{steady}"


def _document(
    found: "Elsewhere", throughput_hz: float | None, manifest: "Manifest", record: "Fared | None"
) -> Document:
    from edgetop.wording.forecast_words import share_silence_words, silence_words  # noqa: PLC0415

    trip, steady = (_figures(of) for of in (found.trip_after_s, found.steady_c))
    return {
        "session": manifest.id, "simulated": manifest.board.simulated, "enclosure": manifest.methodology.enclosure,
        "ambient_c": found.ambient_c, "measured_at_c": found.measured_at_c,
        "sensor": found.sensor.id if found.sensor else None, "trip_c": found.trip_c, "throttles": found.throttles,
        "trip_after_s": trip[0], "trip_range_s": trip[1:] or None,
        "steady_c": steady[0], "steady_range_c": steady[1:] or None,
        "throughput_share": found.share, "share_reason": share_silence_words(found.share_silence) or None,
        "throughput_hz": None if found.share is None or throughput_hz is None else [
            round(end * throughput_hz, 4) for end in found.share
        ],
        "fan_can_rise": found.fan_can_rise if found.throttles else None, "reason": silence_words(found.silence) or None,
        "fared": asdict(record) if record else None,
    }  # fmt: skip


def _figures(of: "Estimate | None") -> list[float | None]:
    """Return `[value, lowest, highest]` of an estimate, with None in place of infinities.

    Without an estimate, the result is `[None]`.
    """
    values = (of.value, of.low, of.high) if of else (math.inf,)
    return [round(value, 2) if math.isfinite(value) else None for value in values]
