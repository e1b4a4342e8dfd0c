"""The kernel knows whether anybody keeps the clock."""

import pytest

from edgetop.doctor.machine_checks import STA_UNSYNC, judge_clock, read_status

STA_PLL, STA_NANO = 0x0001, 0x2000  # include/uapi/linux/timex.h


@pytest.mark.parametrize(("status", "judged"), [(STA_PLL | STA_NANO, "ok"), (STA_UNSYNC | STA_NANO, "warning")])
def test_the_status_bit_decides(status: int, judged: str) -> None:
    assert judge_clock(status, 0.012, has_systemd=True).status == judged


def test_the_command_fits_the_machine() -> None:
    assert judge_clock(STA_UNSYNC, 0.0, has_systemd=True).fix == "sudo timedatectl set-ntp true"
    assert "timedatectl" not in str(judge_clock(STA_UNSYNC, 0.0, has_systemd=False).fix)


def test_this_kernel_answers() -> None:
    status, error_s = read_status()
    assert 0 <= status < 1 << 16
    assert 0 <= error_s <= 16.1  # MAXSEC..: it stops growing at 16 s (kernel/time/ntp.c, NTP_PHASE_LIMIT)
