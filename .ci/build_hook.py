"""Make the man page when a wheel is built, so that it has the commands and options of that very version."""

import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_PYTHON = (3, 10)  # of pyproject.toml


class ManPage(BuildHookInterface):
    """Adds edgetop(1) to a wheel, at share/man/man1 of the environment that it is installed in."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Write the page to a private folder, which `finalize` removes. An editable installation gets none.

        An older Python cannot import edgetop, so the build ends in one line. pip compares the versions later, after it
        has downloaded many versions of other packages.
        """
        if sys.version_info < OLDEST_PYTHON:
            here, oldest = (".".join(map(str, one[:2])) for one in (sys.version_info, OLDEST_PYTHON))
            sys.exit(f"edgetop needs Python {oldest} or later, and this is Python {here}")
        if version != "standard":
            return
        sys.path.insert(0, self.root)
        try:
            from edgetop.cli.man_page import page  # noqa: PLC0415  it is found there alone
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory(prefix="edgetop-man-")  # `finalize` removes it
        file = Path(self._folder.name) / "edgetop.1"
        file.write_text(page(), encoding="utf-8")
        build_data["shared_data"][str(file)] = "share/man/man1/edgetop.1"

    def finalize(self, version: str, _build_data: dict, _path: str) -> None:
        """Remove the private folder."""
        if version == "standard":
            self._folder.cleanup()
