"""A program that behaves as docker(1) and podman(1) do where edgetop uses them, without containers.

It is run under either name. Its state is in the folder FAKE_RUNTIME: images and containers as JSON, and `calls`, a line
for each command. `run` executes the command as a child on this machine; the folders that would be mounted are where
they are, so that paths in the container are replaced in the environment.

FAKE_RUNTIME_FAILS: the first word of a command that fails with status 125. FAKE_RUNTIME_DOWN: the message with which
every command fails.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ["FAKE_RUNTIME"])
NAME = Path(sys.argv[0]).name
VALUED = ("--mount", "--env", "--change", "-v", "--network")


def fail(text, status=125):
    print(f"Error: {text}", file=sys.stderr)
    raise SystemExit(status)


def document(kind, name):
    return HOME / kind / (name.replace("/", "+") + ".json")


def find(kind, name):
    for path in (HOME / kind).glob("*.json"):
        with contextlib.suppress(ValueError, OSError):
            one = json.loads(path.read_text())
            if name in (one["Id"], one["Name"]):
                return one
    return None


def store(kind, one):
    path = document(kind, one["Name"])
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".new").write_text(json.dumps(one))
    path.with_suffix(".new").replace(path)


def split(words):
    """The options of `run`, as (name, value), and the words after them."""
    options, rest = [], list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        options.append((name, value if equals else rest.pop(0) if name in VALUED else ""))
    return options, rest


def outside(text, mounts):
    """A text with the paths in the container replaced by those on this machine."""
    for one in mounts:
        text = re.sub(rf"(?<![\w./-]){re.escape(one['target'])}", lambda _, one=one: one["source"], text)
    return text


def run(words):
    options, (image, *command) = split(words)
    given = dict(options)
    found = find("images", image) or fail(f"{image}: no such image")
    if "--entrypoint" in given:
        command = [given["--entrypoint"], *command]
    mounts = [
        dict(part.partition("=")[::2] for part in value.split(",")) for name, value in options if name == "--mount"
    ]
    environment = {"PATH": os.environ["PATH"], "FAKE_IN_CONTAINER": found["Name"]}
    for value in (value for name, value in options if name == "--env"):
        name, _, text = value.partition("=")
        environment[name] = outside(text, mounts)
    command = [outside(word, mounts) for word in command]
    folder = given.get("--workdir") or "/"
    name = given.get("--name", f"some-{os.getpid()}")
    if find("containers", name):
        fail(f"the container name {name} is already in use")
    try:
        process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
    except OSError as error:
        fail(f"exec: {command[0]}: {error.strerror}", 127)
    one = {
        "Id": f"{abs(hash(name)):064x}"[-64:],
        "Name": name,
        "State": {"Running": True, "Pid": process.pid},
        "Path": command[0],
        "Args": command[1:],
        "Config": {
            "Image": found["Name"],
            "Entrypoint": [given["--entrypoint"]] if "--entrypoint" in given else found["Config"].get("Entrypoint", []),
        },
    }
    store("containers", one)
    status = process.wait()
    if "--rm" in given:
        document("containers", name).unlink()
    else:
        store("containers", {**one, "State": {"Running": False, "Pid": 0}})
    raise SystemExit(status if status >= 0 else 128 - status)


def main(words):  # noqa: C901, PLR0912  one branch a command
    HOME.mkdir(exist_ok=True)
    with (HOME / "calls").open("a") as calls:
        calls.write(json.dumps([NAME, *words]) + "\n")
    if down := os.environ.get("FAKE_RUNTIME_DOWN"):
        fail(down, 1)
    if words[0] == os.environ.get("FAKE_RUNTIME_FAILS"):
        fail(f"{words[0]} does not work today")
    match words:
        case ["ps", *options]:
            for path in (HOME / "containers").glob("*.json") if "--all" in options else ():
                print(json.loads(path.read_text())["Name"])
        case ["image" | "container" as kind, "inspect", "--", name]:
            one = find(f"{kind}s", name) or fail(f"no such {kind}: {name}", 1)
            print(json.dumps([one]))
        case ["pull", *_, name]:
            known = (HOME / "registry").read_text().split() if (HOME / "registry").exists() else []
            if name not in known:
                fail(f"{name} was not found in a registry")
            store("images", {"Id": f"sha256:{name}", "Name": name, "Config": {}})
        case ["build", *rest]:
            given = dict(split(rest)[0])
            text = Path(given["--file"]).read_text()
            if "FROM" not in text:
                fail("no build stage in the Dockerfile")
            store("images", {"Id": f"sha256:{abs(hash(text)):x}", "Name": given["--tag"], "Config": {}})
        case ["run", *rest]:
            run(rest)
        case ["commit", *rest]:
            options, (name, image) = split(rest)
            changes = dict(value.split(" ", 1) for option, value in options if option == "--change")
            config = {
                "User": changes["USER"],
                "WorkingDir": changes["WORKDIR"],
                # As Docker does (daemon/commit.go): no change can take away an entry point of the container.
                "Entrypoint": json.loads(changes["ENTRYPOINT"]) or find("containers", name)["Config"]["Entrypoint"],
                "Cmd": json.loads(changes["CMD"]),
            }
            store("images", {"Id": f"sha256:{image}", "Name": image, "Config": config})
        case ["rm", "--force", name]:
            document("containers", name).unlink(missing_ok=True)
        case ["image", "rm", name]:
            if one := find("images", name):
                document("images", one["Name"]).unlink()
        case ["kill", signal_word, name]:
            one = find("containers", name) or fail(f"no such container: {name}")
            os.kill(one["State"]["Pid"], signal.Signals[f"SIG{signal_word.partition('=')[2]}"])
        case ["info", *_]:
            print("[]")
        case _:
            fail(f"unknown command {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
