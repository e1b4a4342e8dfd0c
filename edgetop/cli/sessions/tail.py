"""`edgetop tail`: the slowest inferences of a session, and what was different in each."""

import click

from edgetop.cli import completion
from edgetop.cli.companions import option

MOST = 40  # As many as an analysis keeps.
OPTIONS = (
    option("--top", type=click.IntRange(1, MOST), default=20, show_default=True, help="Inferences to list."),
    option("--json", "as_json", is_flag=True, help="Print one JSON document, with all of them."),
)


@click.command("tail", params=[*OPTIONS])
@click.argument("session", required=False, shell_complete=completion.sessions)
def command(session: str | None, *, top: int, as_json: bool) -> None:
    """List the slowest inferences of SESSION, and what was different in each.

    First come the causes, with the share of the slowest inferences that each explains, then the inferences. Without
    SESSION, use the newest.

    \b
    Examples:
      edgetop tail
      edgetop tail soak-42 --top 5
      edgetop tail soak-42 --json | jq .causes
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.choosing import recorded  # noqa: PLC0415
    from edgetop.cli.output import print_json, print_text, raise_problems  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415
    from edgetop.wording.tail_words import tail_document, tail_lines  # noqa: PLC0415

    with Recording(recorded(session)) as recording:
        analysis = Analysis.of(recording.play())
        tail = analysis.tail()
        if as_json:
            print_json(tail_document(tail))
        elif tail.slowest:
            simulated = ["SIMULATED"] if recording.manifest.board.simulated else []
            print_text("\n".join([*simulated, *tail_lines(tail, top)]))
        elif analysis.totals() is None:
            print_text("nothing was measured, or it cannot be read", err=True)
        elif recording.manifest.ab is not None:
            print_text("an A/B session has no tail, because two models run in it: edgetop report shows p99", err=True)
        else:
            print_text("no inference stands out: none took 10 % longer than the median", err=True)
        raise_problems(recording.problems, "the rest was used")
