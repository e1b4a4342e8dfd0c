"""Entry point of `python -m edgetop`. edgetop also runs this file to start further processes of itself.

Python looks for modules in the current folder first (with `-m`), or in this file's folder. These two folders are
removed from the path. Otherwise, files in the current folder would run as edgetop's code, and files in this folder
would hide modules of the same names.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  what Python has loaded by itself
_PACKAGES = os.path.dirname(_HERE)  # noqa: PTH120


def _leave_only_packages() -> None:
    """Remove the current folder and this file's folder from `sys.path`, where Python put one of them first.

    Make sure that `import edgetop` still finds this edgetop.
    """
    if __package__ and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]  # noqa: PTH100
    if not __package__:
        sys.path.insert(0, _PACKAGES)
        import edgetop  # noqa: F401, PLC0415  from here on its own folder says where its modules are

        del sys.path[0]
    if _PACKAGES not in sys.path:
        sys.path.append(_PACKAGES)


if __name__ == "__main__":
    _leave_only_packages()
    from edgetop.cli.main import main

    main()
