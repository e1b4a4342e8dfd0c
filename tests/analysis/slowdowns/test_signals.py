"""Which sensors can tell why, and what is looked up of them."""

from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.tracks import Tracks
from edgetop.session.batch import Batch
from edgetop.session.manifest import Board
from edgetop.session.seconds import NS
from tests.support.sessions import make_manifest, make_readings, make_sensor


def test_the_sensors_that_can_tell_why_are_the_rows() -> None:
    tracks, manifest = Tracks(), make_manifest(
        make_sensor("freq/cpu0"), make_sensor("mem/rss"), make_sensor("throttle/limit")
    )  # fmt: skip
    signals = Signals(tracks)
    signals.register(manifest)
    tracks.fold(
        Batch(3 * NS, readings=make_readings((NS, 0, 1800.0), (NS, 1, 9.0), (2 * NS, 2, 1.0)), manifest=manifest)
    )
    assert [info.id for info in signals.infos] == ["freq/cpu0", "throttle/limit"]
    held, was_read = signals.held(2, 3)
    assert held.tolist() == [[1800.0], [1.0]]
    assert was_read.tolist() == [[False], [True]]
    assert signals.held(2, 3, [1])[0].tolist() == [[1.0]]


def test_a_raspberry_pi_zone_counts_at_its_firmware_limit() -> None:
    tracks = Tracks()
    signals = Signals(tracks)
    sensors = make_sensor("mem/rss"), make_sensor("temp/cpu-thermal"), make_sensor("temp/rp1_adc")
    manifest = make_manifest(*sensors, board=Board(model="Raspberry Pi 5 Model B"))
    signals.register(manifest)
    tracks.fold(Batch(2 * NS, readings=make_readings((NS, 0, 9.0), (NS, 1, 79.5)), manifest=manifest))
    assert [info.id for info in signals.infos] == ["temp/cpu-thermal"]
    [channel] = signals.channels
    held, _ = signals.held(1, 2)
    assert (channel.name, channel.values(held).tolist()) == ("zone-at-trip", [-0.5])
