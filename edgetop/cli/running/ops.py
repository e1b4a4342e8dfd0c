"""`edgetop ops`: show how long each operator (step of the model) takes in one inference."""

from pathlib import Path

import click
from click import IntRange

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, Value, needs, option
from edgetop.cli.running.run import MODEL_OPTIONS
from edgetop.errors import EXIT_DONE

EXAMPLES = """\b
Examples:
  edgetop ops mobilenet.onnx --threads 4
  edgetop ops detector.tflite --json | jq '.operators | sort_by(-.share)[:5]'
  edgetop ops ocr.onnx --shape x:1,3,48,192 --csv operators.csv
  edgetop ops ocr.onnx --md operators.md
  edgetop ops model.onnx --trace run.json                   open it at ui.perfetto.dev
  edgetop ops model.onnx --provider TensorRT --require-full-delegation
"""


OPS_OPTIONS = (
    option("--runs", type=IntRange(1, 100_000), default=50, show_default=True, help="Instrumented inferences."),
    option(
        "--warmup-runs", type=text.warmup_runs, default="50", show_default=True, metavar="N|steady",
        help="Number of warm-up inferences, or steady: warm up until latency no longer drifts, for at most a minute.",
    ),
    option("--engine-cpus", type=text.cpus, metavar="CPUS", help="Pin the engine to CPUS: 2-3."),
    option("--no-roofline", is_flag=True, help="Do not measure the ceilings of the board; use the stored ones."),
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help ops)."),
    option("--csv", "csv_file", type=PATH, metavar="FILE", help="Also write the operators in run order as CSV."),
    option("--trace", "trace_file", type=PATH, metavar="FILE", help="Also write one inference as a Perfetto trace."),
    option("--md", "md_file", **text.MARKDOWN),
    option(
        "--force", is_flag=True, help="Replace existing files.",
        rules=[needs("csv_file", "trace_file", "md_file", advice="it allows them to replace a file")],
    ),
)  # fmt: skip


@click.command("ops", params=[*MODEL_OPTIONS, *OPS_OPTIONS], epilog=EXAMPLES)
@click.argument("model", required=False, type=PATH)
def command(
    *,
    runs: int,
    warmup_runs: int | None,
    no_roofline: bool,
    as_json: bool,
    csv_file: Path | None,
    trace_file: Path | None,
    md_file: str | None,
    force: bool,
    **model_options: Value,
) -> int:
    """Profile the operators of MODEL, an ONNX, TFLite or GGUF file. Without MODEL, profile the built-in demo model.

    The model runs as with `edgetop run`, and instrumented inferences alternate with plain ones.
    About two seconds more are used to measure the peak FLOP/s and bandwidth of this board.
    """
    from edgetop.cli.printing.markdown import markdown_output  # noqa: PLC0415
    from edgetop.cli.running.operator_output import output_files, write  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.running.operator_run import profile  # noqa: PLC0415
    from edgetop.cli.running.run_request import ModelChoice  # noqa: PLC0415

    # Outputs are checked before the model runs.
    csv, trace = output_files(csv_file, trace_file, force=force)
    markdown = markdown_output(md_file, as_json=as_json, csv=str(csv_file) if csv_file else None, force=force)
    found = profile(ModelChoice.of(model_options), runs, warmup_runs, has_roofline=not no_roofline)
    write(*found, csv, trace, markdown, as_json=as_json)
    return EXIT_DONE
