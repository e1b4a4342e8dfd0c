"""The screen. It only draws results of the analysis, and is the only package that imports Textual.

Panes are functions that turn results and a size into lines of text. A single timer fetches new data, and only changed
lines are drawn.
"""

import sys

# asyncio loads OpenSSL if it is installed: 4 MiB for connections that a screen never makes. Prevent that, but let
# other modules load it.
if "ssl" not in sys.modules and "asyncio" not in sys.modules:
    sys.modules["ssl"] = None  # type: ignore[assignment]  # its import fails
    import asyncio  # noqa: F401

    del sys.modules["ssl"]
