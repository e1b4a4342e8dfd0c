"""The screen shows frozen views. The only importer of Textual.

Panes are functions from a view and a size to lines of text: they own no timer, thread, feed
or unit conversion. One timer pulls from the feed; only lines that changed are drawn.
"""

import sys

# asyncio loads OpenSSL where it finds it: 4 MiB for connections that a screen never makes. Others may still load it.
if "ssl" not in sys.modules and "asyncio" not in sys.modules:
    sys.modules["ssl"] = None  # type: ignore[assignment]  # its import fails
    import asyncio  # noqa: F401

    del sys.modules["ssl"]
