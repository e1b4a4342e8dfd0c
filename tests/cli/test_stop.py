"""A stop of a session that takes no orders: not yet, or no more."""

import threading
from pathlib import Path

import pytest

from edgetop.cli.watching import stop
from edgetop.control import control_socket
from edgetop.control.control_socket import Answer, give
from edgetop.control.server import ControlServer
from edgetop.errors import InputError
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import open_folder
from edgetop.session.events import Order
from tests.support.recordings import first_manifest
from tests.support.scripts import OrderLog
from tests.support.waiting import wait_until


def test_one_that_has_just_begun_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, session = Recorder(tmp_path / "new.edgetop", first_manifest()), OrderLog()
    final = Answer("the disk is full", "user", 4)

    def serve() -> None:
        server = ControlServer(tmp_path / "new.edgetop", session)
        server.start()
        wait_until(lambda: session.asked)
        server.finish(final)

    serving = threading.Thread(target=serve)

    def give_and_serve(folder: Path, order: Order) -> Answer:
        try:
            return give(folder, order)
        finally:
            if serving.ident is None:
                serving.start()

    monkeypatch.setattr(control_socket, "give", give_and_serve)
    assert stop._stop(open_folder(tmp_path / "new.edgetop")) == final
    serving.join()
    recorder.discard()


def test_one_that_never_takes_orders_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "deaf.edgetop", first_manifest())
    monkeypatch.setattr(stop, "PATIENCE_S", -1.0)
    with pytest.raises(InputError, match="deaf: runs, but takes no orders here"):
        stop._stop(open_folder(tmp_path / "deaf.edgetop"))
    recorder.discard()


def test_one_that_ended_meanwhile_needs_no_order(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "over.edgetop", first_manifest())
    folder = open_folder(tmp_path / "over.edgetop")
    recorder.finish(first_manifest())
    assert stop._stop(folder) == Answer()
