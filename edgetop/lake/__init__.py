"""A lake: the recordings of many boards in one folder or bucket, and queries over all of them.

The file `TABLE/date=YYYY-MM-DD/board=ID/SESSION.parquet` is one table of one session, as it was recorded. The table
`sessions` has one row for each session, which a push writes last. A session without a row does not count.
"""

import importlib
import sys

from edgetop.recording import CLOUDS

# `edgetop.recording` keeps Arrow from importing its cloud file systems. Arrow looks for them only when it is imported,
# so allow and reload them here.
for _name in CLOUDS:
    if sys.modules.get(_name, _name) is None:
        del sys.modules[_name]
if "pyarrow.fs" in sys.modules:
    importlib.reload(sys.modules["pyarrow.fs"])
