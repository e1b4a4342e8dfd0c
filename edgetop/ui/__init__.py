"""The screen. It only draws results of the analysis, and is the only package that imports Textual.

Panes are functions that turn results and a size into lines of text. A single timer fetches new data, and only changed
lines are drawn.
"""

import sys
from collections.abc import Sequence


class _AsyncioWithoutOpenssl:
    """Imports asyncio without OpenSSL, right before Textual is imported, which needs asyncio.

    asyncio loads OpenSSL if it is installed: 4 MiB for connections that a screen never makes. Other modules can still
    load it. Without a screen, nothing needs asyncio, which takes 2.5 MiB itself.
    """

    def find_spec(self, fullname: str, _: Sequence[str] | None = None, __: object = None) -> None:
        """Find nothing, so that Python goes on with its search for the module `fullname`."""
        if fullname == "textual":
            sys.meta_path.remove(self)
            if "ssl" not in sys.modules and "asyncio" not in sys.modules:
                sys.modules["ssl"] = None  # type: ignore[assignment]  # its import fails
                import asyncio  # noqa: F401, PLC0415

                del sys.modules["ssl"]


sys.meta_path.insert(0, _AsyncioWithoutOpenssl())
