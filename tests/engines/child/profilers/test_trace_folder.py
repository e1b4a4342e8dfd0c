"""The folder of a burst's traces."""

import os
import stat
from pathlib import Path

from edgetop.engines.child.profilers.trace_folder import make_folder

NOBODY = 2**22 + 1  # beyond what the kernel numbers processes with (proc_sys_kernel(5), pid_max)


def left(home: Path, name: str, age_s: float) -> Path:
    folder = home / name
    folder.mkdir()
    (folder / "trace.json").write_text("[]")
    then = folder.stat().st_mtime - age_s
    os.utime(folder, (then, then))
    return folder


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    folder = Path(make_folder(str(tmp_path)))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_killed_engines_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    gone = left(tmp_path, f"edgetop-{NOBODY}-abc", 3_600)
    young = left(tmp_path, f"edgetop-{NOBODY}-def", 1)
    lives = left(tmp_path, f"edgetop-{os.getpid()}-ghi", 3_600)
    another = left(tmp_path, f"other-{NOBODY}-jkl", 3_600)
    made = Path(make_folder(str(tmp_path)))
    assert not gone.exists()
    assert set(tmp_path.iterdir()) == {young, lives, another, made}
