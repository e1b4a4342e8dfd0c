"""Words of the command lines that edgetop prints, written so that they can be copied into a shell."""

import shlex
from pathlib import Path

from edgetop.errors import InputError
from edgetop.formatting import clean


def path_word(path: Path | str) -> str:
    """Return a path as one word for a shell. A path that begins with `-` gets `./`, so that it is no option.

    >>> path_word("runs/net"), path_word("my model.onnx"), path_word("-rf.onnx")
    ('runs/net', "'my model.onnx'", './-rf.onnx')
    """
    text = str(path)
    return clean(shlex.quote(f"./{text}" if text.startswith("-") else text))


def session_word(folder: Path) -> str:
    """Return the word that names the session in `folder` to edgetop, for a shell: its name or, if needed, its path.

    The name is enough if it leads to this session and does not look like an option.
    """
    from edgetop.paths import recordings_home  # noqa: PLC0415  the launcher needs none of it
    from edgetop.recording.registry import locate  # noqa: PLC0415
    from edgetop.recording.session_folder import SUFFIX  # noqa: PLC0415

    name = folder.name.removesuffix(SUFFIX)
    try:
        is_name_enough = not name.startswith("-") and locate(name, recordings_home()).resolve() == folder.resolve()
    except InputError:
        is_name_enough = False
    return path_word(name if is_name_enough else folder)
