"""Runs a watched program in a container: what the options of `edgetop watch` mean for docker or podman."""

import os
import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgetop.cli.output import print_text
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.runner.container_images import ROOT, can_preload, container_image, security_options, user_options
from edgetop.runner.container_limits import limit_options, why_unlimited
from edgetop.runner.engine_limit import Limit
from edgetop.taps.container_run import ContainerSpec, mount
from edgetop.taps.container_runtime import Image, Runtime
from edgetop.taps.runtimes import MODELS
from edgetop.taps.watched_program import ProgramSpec

USER = ("-u", "--user")  # options of `run` that choose the user in the container
# Options of `run` that edgetop needs for itself.
TAKEN = ("--rm", "--name", "-d", "--detach", "-t", "--tty", "--cidfile", "--entrypoint", "--label-file", "--restart")


def contained(
    spec: ProgramSpec, image: str | None, dockerfile: Path | None, setup: str | None, given: str, limit: Limit
) -> ProgramSpec:
    """Return `spec` changed so that its program runs in a container.

    Pull, build and set up the image first if necessary. `image`, `dockerfile` and `setup` are the values of the options
    with these names; None if not given. `given` is the text of `--container-args`, with further options of docker or
    podman. `limit` is what the program is allowed to use. Raises InputError if the image cannot be made or the limit
    cannot be set.
    """
    cpus = spec.surroundings.cpus if spec.surroundings else frozenset(os.sched_getaffinity(0))
    limits = tuple(limit_options(limit, cpus))  # refused before an image is pulled
    arguments, runtime, made = image_of(image, dockerfile, setup, given)
    folder = str(Path.cwd())
    models = [word for word in spec.command if _is_model_outside(word, folder)]
    has_user = any(word.partition("=")[0] in USER for word in arguments)
    options = (
        *limits, "--mount", mount(folder, folder), f"--workdir={folder}", *security_options(),
        *(word for each in dict.fromkeys(models) for word in ("--mount", mount(each, each, is_readonly=True))),
        *(() if has_user else user_options(runtime, made)), *arguments,
    )  # fmt: skip
    container = ContainerSpec(
        runtime,
        made,
        options,
        has_preload=spec.preload is not None and can_preload(runtime, made, spec.preload),
        why_unlimited=partial(why_unlimited, limit, cpus),
        is_shared=os.geteuid() == 0 and (has_user or made.user not in ROOT),
    )
    return replace(spec, container=container)


def image_of(
    image: str | None, dockerfile: Path | None, setup: str | None, given: str
) -> tuple[list[str], Runtime, Image]:
    """Return `(words, runtime, image)`. The image is pulled, built and set up if necessary.

    `words` are the options of `--container-args` (`given`), split as a shell does. `runtime` is docker or podman.
    `image`, `dockerfile` and `setup` are the values of the options with these names; None if not given. Raises
    InputError.
    """
    arguments = _split(given)
    return (arguments, *container_image(image, dockerfile, setup, arguments, _say))


def _is_model_outside(word: str, folder: str) -> bool:
    """Whether a word of the command is the absolute path of a model file outside `folder`."""
    path = Path(word)
    return path.is_absolute() and word.lower().endswith(MODELS) and path.is_file() and not path.is_relative_to(folder)


def _split(given: str) -> list[str]:
    """Split the text of `--container-args` into words, as a shell does.

    Raises InputError for a word that is not allowed.
    """
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise InputError(f"--container-args {clean(given)!r}: {error}", "close the quote") from None
    if words and not words[0].startswith("-"):
        raise InputError(f"--container-args {clean(words[0])!r} is no option", "as in --container-args '--gpus all'")
    if taken := next((word for word in words if word.partition("=")[0] in TAKEN), None):
        raise InputError(f"--container-args {clean(taken)}: edgetop sets this option itself", "leave it out")
    return words


def _say(text: str) -> None:
    print_text(f"edgetop: {text}", err=True)
    sys.stderr.flush()
