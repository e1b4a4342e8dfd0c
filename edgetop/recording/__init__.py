"""Recordings of sessions. A recording is a folder with a manifest and Parquet tables.

The format is public (`edgetop help format`), so people can query a recording without edgetop. Only this package and
`edgetop.lake` import Arrow.
"""

import sys

# Importing pyarrow.parquet also loads Arrow's cloud file systems, which edgetop never uses and which take 4 MiB.
CLOUDS = ("pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs")
for _name in CLOUDS:
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]  # None makes the import fail
