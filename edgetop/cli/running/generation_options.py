"""The options of `edgetop run` for language models: prompts, lengths in tokens, size of the context, temperature."""

from click import BadParameter, IntRange

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, not_beside, option

AUTO = "auto"
MAX_CONTEXT = 2**24


def context(given: str) -> int | str:
    """Parse a number of tokens, at least 2, or the word `auto`. Raises BadParameter.

    >>> context("4096"), context("auto")
    (4096, 'auto')
    """
    if given == AUTO:
        return AUTO
    if not given.isascii() or not given.isdecimal() or not 1 < int(given) <= MAX_CONTEXT:
        raise BadParameter(f"{given!r}: write a number of tokens, or auto")
    return int(given)


MAX_PARALLEL = 64
PARALLEL = option(
    "--parallel", type=IntRange(1, MAX_PARALLEL), metavar="N", rules=[not_beside("streams")],
    help="Language model: most requests at the same time. Default: 1.",
)  # fmt: skip
NO_OTHER_PROMPT = not_beside("prompts_file", "prompt_tokens", advice="a request has one prompt")
GENERATION_OPTIONS = (
    option(
        "--prompt", metavar="TEXT|FILE", rules=[NO_OTHER_PROMPT],
        help="Language model: prompt of every request, or a text file that holds it.",
    ),
    option(
        "--prompts", "prompts_file", type=PATH, metavar="FILE.jsonl", rules=[not_beside("prompt_tokens")],
        help="Language model: prompts, taken in turn; a line is a JSON string or an object with the key prompt.",
    ),
    option(
        "--prompt-tokens", type=IntRange(1, MAX_CONTEXT), metavar="N",
        help="Language model: length of random prompts. Default: 128, unless there is a text.",
    ),
    option(
        "--max-tokens", type=IntRange(1, MAX_CONTEXT), metavar="N",
        help="Language model: most tokens that a request generates. Default: 128.",
    ),
    option(
        "--context", type=context, metavar="N|auto",
        help="Language model: size of the context in tokens; auto for the largest that fits into the free memory. "
        "Default: what a request needs.",
    ),
    option(
        "--temperature", type=text.FiniteRange(0, 100), metavar="T",
        help="Language model: randomness of the tokens. Default: 0, always the most probable one.",
    ),
    option(
        "--gpu-layers", type=IntRange(0, 100_000), metavar="N",
        help="Language model: number of layers on the GPU. Default: chosen by the runtime.",
    ),
    PARALLEL,
)  # fmt: skip
