"""A recording keeps a session: a folder with a manifest and five Parquet tables.

The format is public (`edgetop help format`): people query it without edgetop. Only this
package imports Arrow.
"""

import sys

# Arrow loads its file systems of the cloud with Parquet, where it finds them: 4 MiB for nothing.
CLOUDS = ("pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs")
for _name in CLOUDS:
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]  # None: its import fails
