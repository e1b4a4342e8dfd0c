"""Make the container image in which a program is watched: pull it, build it from a Dockerfile, prepare it (`--setup`).

The result of `--setup` is an image of its own, `edgetop-setup:HASH`, for each combination of image, command, folder and
content of the files that the command names. `docker image rm` removes it.
"""

import contextlib
import hashlib
import json
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from edgetop.errors import InputError
from edgetop.files import read_file
from edgetop.formatting import clean
from edgetop.sensors.process_table import HOST
from edgetop.taps.container_run import LABEL, PRELOAD, mount
from edgetop.taps.container_runtime import NOT_STARTED, Image, Runtime, reason, runtimes

SETUP, BUILT = "edgetop-setup", "edgetop-build"  # names of images that edgetop makes
HASH_DIGITS = 16
MOST_ABANDONED = 100  # containers that are removed at once
PULL_S, BUILD_S = 3600.0, 7200.0
TRIAL_S = 120.0  # without overlay file systems, a container's files are copied first
ROOT = ("", "0", "root", "0:0", "root:root")  # users of an image that are root
SELINUX = Path("/sys/fs/selinux/enforce")
# Arguments: runtime, beginning of the container's name, image to make, its USER, WORKDIR, ENTRYPOINT and CMD, arguments
# of `run`. Runs the step, stores its result as an image if it succeeds, and removes the container. The shell outlives
# edgetop, and Ctrl+C on the terminal ends only the step.
_STEP = """
trap : INT TERM HUP
r=$1 name=$2$$ image=$3 u=$4 w=$5 e=$6 c=$7; shift 7
"$r" run --name="$name" "$@"
status=$?
[ $status != 0 ] ||
    "$r" commit --change "USER $u" --change "WORKDIR $w" --change "ENTRYPOINT $e" --change "CMD $c" "$name" "$image" ||
    status=124
"$r" rm --force "$name" >/dev/null 2>&1
exit $status
"""
_NOT_STORED = 124
# Prints a word if a program of the image can load the library for C programs, as one for an older C library cannot.
_TRIAL = f'[ -z "$(LD_PRELOAD={PRELOAD} true 2>&1)" ] && echo loaded'

Say = Callable[[str], None]  # prints a line about a step that takes time


def container_image(
    name: str | None, dockerfile: Path | None, setup: str | None, arguments: Sequence[str], say: Say
) -> tuple[Runtime, Image]:
    """Return the container runtime and the image in which a program is to run. The image is made first if necessary.

    `name` is the image's name, or None for an image that is built from `dockerfile`. `setup` is a shell command that
    prepares the image, or None. `arguments` are further options of `docker run`. `say` gets a sentence before each long
    step. Raises InputError if the image cannot be made.
    """
    usable = runtimes()
    runtime = usable[0]
    if dockerfile is not None:
        image = _built(runtime, dockerfile, name, say)
    else:
        assert name is not None
        found = ((each, each.image(name)) for each in usable)
        runtime, there = next(((each, one) for each, one in found if one), (runtime, None))
        image = there or _pulled(runtime, name, say)
    return runtime, _set_up(runtime, image, setup, arguments, say) if setup is not None else image


def _pulled(runtime: Runtime, name: str, say: Say) -> Image:
    say(f"pulling the image {clean(name)} with {runtime.name}")
    done = runtime.ask("pull", "--quiet", "--", name, within_s=PULL_S)
    if done.returncode or not (image := runtime.image(name)):
        text = f"--container {name}: there is no such image, and {runtime.name} cannot pull it"
        raise InputError(f"{clean(text)}: {reason(done.stderr)}", f"{runtime.name} images lists those that are here")
    return image


def _built(runtime: Runtime, dockerfile: Path, name: str | None, say: Say) -> Image:
    """Build an image from a Dockerfile, with the current folder as context, and return it.

    Without a `name` for the image, the image of an earlier build of the file is removed.
    """
    tag = name or f"{BUILT}:{_digest([str(dockerfile.resolve())])}"
    before = runtime.image(tag)
    say(f"building the image of {clean(str(dockerfile))} with {runtime.name}")
    words = ("build", f"--file={dockerfile}", f"--tag={tag}", f"--label={LABEL}=build", ".")
    done = runtime.ask(*words, within_s=BUILD_S)
    if done.returncode or not (image := runtime.image(tag)):
        why = reason(done.stderr or done.stdout)
        raise InputError(f"--dockerfile {clean(str(dockerfile))}: {runtime.name} cannot build it: {why}")
    if before and before.id != image.id and not name:
        runtime.ask("image", "rm", before.id)
    return image


def _set_up(runtime: Runtime, image: Image, setup: str, arguments: Sequence[str], say: Say) -> Image:
    """Run the shell command `setup` on the image, in the current folder, and return the image that results.

    If the same command has run on the same image before, the image that resulted then is returned.
    """
    folder = str(Path.cwd())
    parts = [image.id, setup, folder, *arguments, *_contents(setup)]
    tag = f"{SETUP}:{_digest(parts)}"
    if made := runtime.image(tag):
        return replace(made, name=image.name)
    say(f"setting up {clean(image.name)}, once: {clean(setup)}")
    config = (image.user or "0", image.folder or "/", json.dumps(image.entrypoint), json.dumps(image.command))
    # `docker commit` keeps the container's entry point if the change is an empty one (merge in moby, daemon/commit.go).
    shell = ("--entrypoint=/bin/sh", image.id) if image.entrypoint else (image.id, "/bin/sh")
    words = [
        f"--label={LABEL}=setup", "--mount", mount(folder, folder), f"--workdir={folder}", *security_options(),
        *arguments, *shell, "-c", setup,
    ]  # fmt: skip
    _remove_abandoned(runtime)
    order = ["/bin/sh", "-c", _STEP, "sh", runtime.program, _prefix(), tag, *config, *words]
    with tempfile.TemporaryFile() as output:
        step = subprocess.Popen(order, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603  docker or podman
        try:
            status = step.wait()
        except KeyboardInterrupt:  # which the first process of a container may ignore (`ContainerRun.send`)
            runtime.ask("kill", f"{_prefix()}{step.pid}")
            step.wait()
            raise
        output.seek(0)
        last = output.read()[-65_536:].decode("utf-8", "replace")
    if status == 0 and (made := runtime.image(tag)):
        return replace(made, name=image.name)
    why = "its result cannot be stored" if status == _NOT_STORED else f"exit status {status}"
    raise InputError(f"--setup {shlex.quote(clean(setup))}: {why}: {reason(last)}")


def _prefix() -> str:
    """Return the beginning of the names of this machine's setup containers.

    The rest is the process id of the setup's shell.
    """
    # With a hash of this machine and its process ids, because other machines may use the same daemon.
    where = (HOST.line("etc/machine-id") or platform.node(), HOST.link("proc/self/ns/pid") or "")
    return f"{SETUP}-{_digest(where)[:8]}-"


def _remove_abandoned(runtime: Runtime) -> None:
    """Remove the setup containers whose shell was killed."""
    options = ("--all", f"--filter=label={LABEL}=setup", "--format={{.Names}}")
    for name in runtime.ask("ps", *options).stdout.split()[:MOST_ABANDONED]:
        pid = name.removeprefix(_prefix())
        if pid != name and pid.isdecimal() and not HOST.exists(f"proc/{pid}"):
            runtime.ask("rm", "--force", name)


def _contents(setup: str) -> Iterator[str]:
    """Yield the SHA-256 of each file that the command line `setup` names."""
    try:
        words = shlex.split(setup)
    except ValueError:  # the shell will report it
        words = setup.split()
    for word in words:
        with contextlib.suppress(OSError, ValueError):
            yield hashlib.sha256(read_file(Path(word))).hexdigest()


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:HASH_DIGITS]


def security_options() -> list[str]:
    """Return the options that let a container read folders of this machine under SELinux, or [] without SELinux."""
    return ["--security-opt=label=disable"] if SELINUX.exists() else []


def user_options(runtime: Runtime, image: Image) -> list[str]:
    """Return the options of `run` that make a container's program run as the user of edgetop, or [] if none is needed.

    The files that the program writes then belong to this user, and not to root.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        return []
    of_user = [f"--user={user}:{group}", "--env=HOME=/tmp"]
    if runtime.name == "podman":
        return [] if image.user in ROOT else ["--userns=keep-id", *of_user]
    is_rootless = "rootless" in runtime.ask("info", "--format={{.SecurityOptions}}").stdout
    return [] if is_rootless else of_user


def can_preload(runtime: Runtime, image: Image, library: Path) -> bool:
    """Whether a program in the image can load edgetop's C library. False if the image lacks a shell for the test."""
    mounted = mount(str(library), PRELOAD, is_readonly=True)
    name = f"edgetop-trial-{os.getpid()}"
    words = ("--rm", f"--name={name}", f"--label={LABEL}=trial", "--network=none", *security_options())
    order = ("run", *words, "--mount", mounted, "--entrypoint=/bin/sh", image.id, "-c", _TRIAL)
    done = runtime.ask(*order, within_s=TRIAL_S)
    if done.returncode == NOT_STARTED:  # a container that is created too late stays
        runtime.ask("rm", "--force", name)
    return "loaded" in done.stdout.split()
