"""`/etc/nvpmodel.conf`: which limits each power mode of a Jetson sets, and through which files.

First come the files (`< PARAM TYPE=CLOCK NAME=GPU >`, then `MAX_FREQ /sys/...`), then the
modes (`< POWER_MODEL ID=0 NAME=15W >`, then `GPU MAX_FREQ 612000000`). -1 stands for the
highest there is (Jetson Linux developer guide, "nvpmodel").
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SECTION = re.compile(r"<\s*(PARAM|POWER_MODEL)\s+(.*?)\s*>")
_FIELD = re.compile(r"(\w+)=(\S+)")
_MODE_ID = re.compile(r"[0-9]{1,4}")
_PATH = re.compile(r"/[\w/.@:+-]+", re.ASCII)
_SETTING = re.compile(r"-1|[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Mode:
    """What one power mode sets: a value by the name of the parameter and of its file."""

    name: str
    settings: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Modes:
    modes: Mapping[int, Mode]
    files: Mapping[tuple[str, str], str]  # path by the name of the parameter and of its file


def parse_modes(text: str) -> Modes:
    """What can be understood; lines of another shape are passed over."""
    files: dict[tuple[str, str], str] = {}
    modes: dict[int, Mode] = {}
    parameter: str | None = None
    settings: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        plain = line.partition("#")[0].strip()
        if match := _SECTION.fullmatch(plain):
            fields = dict(_FIELD.findall(match[2]))
            parameter = fields.get("NAME") if match[1] == "PARAM" else None
            settings = {}
            if match[1] == "POWER_MODEL" and _MODE_ID.fullmatch(fields.get("ID", "")):
                modes[int(fields["ID"])] = Mode(fields.get("NAME", f"mode {fields['ID']}"), settings)
            continue
        words = plain.split()
        if parameter and len(words) == 2 and _PATH.fullmatch(words[1]):
            files[parameter, words[0]] = words[1]
        elif len(words) == 3 and _SETTING.fullmatch(words[2]):
            settings[words[0], words[1]] = int(words[2])
    return Modes(modes, files)
