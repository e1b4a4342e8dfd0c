"""A recording keeps a session: a folder with a manifest and five Parquet tables.

The format is public (`edgetop help format`): people query it without edgetop. Only this
package imports Arrow.
"""

import sys

# Arrow loads its file systems of the cloud with Parquet, where it finds them: 4 MiB for nothing.
for _name in ("_azurefs", "_gcsfs", "_hdfs", "_s3fs"):
    sys.modules.setdefault(f"pyarrow.{_name}", None)  # type: ignore[arg-type]  # None: not to be had
