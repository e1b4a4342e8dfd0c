"""A lake: the recordings of many boards in one folder or bucket, and queries over all of them.

`TABLE/date=YYYY-MM-DD/board=ID/SESSION.parquet` are the tables of sessions, as they were recorded. The table `sessions`
has one row for each session, which is written last: a session without a row is not in the lake.
"""

import importlib
import sys

from edgetop.recording import CLOUDS

# A recording does without Arrow's file systems of the cloud, and Arrow looks for them once.
for _name in CLOUDS:
    if sys.modules.get(_name, _name) is None:
        del sys.modules[_name]
if "pyarrow.fs" in sys.modules:
    importlib.reload(sys.modules["pyarrow.fs"])
