"""Orders to a session through its socket: who may give them, and what cannot disturb it."""

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetop.control.control_socket import MAX_LINE, Answer, NotRunningError, address, give, parse_answer
from edgetop.control.server import MAX_CLIENTS, ControlServer
from edgetop.errors import EdgetopError, InputError
from edgetop.recording.session_folder import SOCKET
from edgetop.session.events import Order
from tests.support.scripts import OrderLog
from tests.support.waiting import PATIENCE_S, wait_until

FINAL = Answer(end_reason="user")


@pytest.fixture
def session() -> OrderLog:
    return OrderLog()


@pytest.fixture
def server(tmp_path: Path, session: OrderLog) -> Iterator[ControlServer]:
    server = ControlServer(tmp_path, session)
    server.start()
    yield server
    if server._thread.is_alive():
        server.finish(FINAL)


def connected(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    with address(folder) as path:
        connection.connect(path)
    return connection


def told(connection: socket.socket) -> Answer:
    with connection, connection.makefile("rb") as answers:
        return parse_answer(answers.readline())


def test_orders_reach_the_session(server: ControlServer, session: OrderLog, tmp_path: Path) -> None:
    for order in (Order("mark", "fan \x1b[31m on"), Order("mark"), *map(Order, ("pause", "resume", "profile"))):
        assert give(tmp_path, order) == Answer()
    marks = [Order("mark", "fan \x1b[31m on"), Order("mark")]
    assert session.asked == [*marks, Order("pause"), Order("resume"), Order("profile")]


def test_a_stop_is_answered_when_the_recording_is_final(
    server: ControlServer, session: OrderLog, tmp_path: Path
) -> None:
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(give(tmp_path, Order("stop")))) for _ in range(2)
    ]  # several may ask
    for thread in threads:
        thread.start()
    wait_until(lambda: len(session.asked) == 2)
    assert give(tmp_path, Order("mark", "still here")) == Answer()
    assert answers == []
    server.finish(Answer("the disk is full", "user", 4))
    for thread in threads:
        thread.join()
    assert answers == [Answer("the disk is full", "user", 4)] * 2


def test_the_socket_is_its_owners_alone(server: ControlServer, tmp_path: Path) -> None:
    status = (tmp_path / SOCKET).stat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600


def test_another_user_is_refused(tmp_path: Path, session: OrderLog) -> None:
    server = ControlServer(tmp_path, session, uid=os.geteuid() + 1)
    server._uids.discard(0)  # the tests may be run by root
    server.start()
    with pytest.raises(EdgetopError, match="belongs to another user"):
        give(tmp_path, Order("stop"))
    server.finish(FINAL)
    assert session.asked == []


def test_a_path_may_be_longer_than_a_socket_address_has_room_for(tmp_path: Path, session: OrderLog) -> None:
    folder = tmp_path / ("long" * 50) / ("path" * 50)
    folder.mkdir(parents=True)
    server = ControlServer(folder, session)
    server.start()
    assert give(folder, Order("mark", "here")) == Answer()
    server.finish(FINAL)


def test_without_a_session_nobody_takes_the_order(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match="is not running"):
        give(tmp_path, Order("stop"))
    with pytest.raises(NotRunningError):
        give(tmp_path / "nothing", Order("stop"))


def test_what_a_session_that_was_killed_left_behind_is_nobody(tmp_path: Path, session: OrderLog) -> None:
    left = ControlServer(tmp_path, session)
    left._listener.close()
    left._wake.close()
    left._woken.close()
    assert (tmp_path / SOCKET).exists()
    with pytest.raises(NotRunningError):
        give(tmp_path, Order("stop"))


def test_after_its_end_a_session_takes_no_orders(server: ControlServer, tmp_path: Path) -> None:
    server.finish(FINAL)
    with pytest.raises(NotRunningError):
        give(tmp_path, Order("mark", "late"))


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"GET / HTTP/1.1\r\n", "not a line of JSON"),
        (b"\x00\xff\n", "not a line of JSON"),
        (b"[" * 3000 + b"\n", "not a line of JSON"),
        (b'{"edgetop": 9, "do": "stop"}\n', "version 9"),
        (b'{"edgetop": 1, "do": "format"}\n', "no such order"),
        (b"x" * (MAX_LINE + 1), "not a line of JSON"),
        (b"x" * 1_000_000 + b"\n", "not a line of JSON"),
    ],
    ids=["http", "binary", "deep", "version", "unknown", "long", "huge"],
)
def test_garbage_is_answered_with_a_line_and_harms_nobody(
    sent: bytes, error: str, server: ControlServer, session: OrderLog, tmp_path: Path
) -> None:
    with connected(tmp_path) as connection:
        try:
            connection.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):  # it does not read to the end of that
            pass
        else:
            try:
                answer = connection.recv(MAX_LINE)
            except ConnectionResetError:  # the same
                answer = b""
            assert not answer or error in parse_answer(answer).error
    assert give(tmp_path, Order("mark", "well")) == Answer()
    assert session.asked == [Order("mark", "well")]


def test_an_order_may_come_in_pieces(server: ControlServer, session: OrderLog, tmp_path: Path) -> None:
    connection = connected(tmp_path)
    for piece in (b'{"edgetop": 1,', b' "do": "mark", ', b'"note": "slow"}\n'):
        connection.sendall(piece)
    assert told(connection) == Answer()
    assert session.asked == [Order("mark", "slow")]


def test_who_does_not_finish_an_order_is_told_so(tmp_path: Path, session: OrderLog) -> None:
    server = ControlServer(tmp_path, session, patience_s=0.05)
    server.start()
    connection = connected(tmp_path)
    connection.sendall(b'{"edgetop": 1, "do": "st')
    assert told(connection).error == "the order did not come in time"
    server.finish(FINAL)
    assert session.asked == []


def test_many_who_say_nothing_do_not_keep_others_out_for_ever(tmp_path: Path, session: OrderLog) -> None:
    server = ControlServer(tmp_path, session, patience_s=0.5)
    server.start()
    idle = [connected(tmp_path) for _ in range(MAX_CLIENTS)]
    wait_until(lambda: len(server._clients) == MAX_CLIENTS)
    assert told(connected(tmp_path)).error == "too many ask at once"
    wait_until(lambda: not server._clients)
    assert give(tmp_path, Order("mark", "at last")) == Answer()
    for connection in idle:
        connection.close()
    server.finish(FINAL)


def test_who_leaves_before_the_end_is_not_waited_for(server: ControlServer, session: OrderLog, tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.sendall(b'{"edgetop": 1, "do": "stop"}\n')
    wait_until(lambda: session.asked)
    connection.close()
    wait_until(lambda: not server._clients)
    server.finish(FINAL)


def test_while_nobody_asks_it_waits_without_waking(server: ControlServer, tmp_path: Path) -> None:
    wait_until(lambda: server._time_left_s() is None)
    with connected(tmp_path):
        wait_until(lambda: server._time_left_s() is not None)
    wait_until(lambda: server._time_left_s() is None)


def test_an_answer_in_its_name_by_another_user_is_not_believed(
    server: ControlServer, session: OrderLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetop.control.control_socket.peer_of", lambda _: (0, os.geteuid() + 1))
    with pytest.raises(InputError, match="another user answers"):
        give(tmp_path, Order("stop"))
    assert session.asked == []


def test_an_order_arrives_though_the_folder_is_moved_meanwhile(
    server: ControlServer, session: OrderLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(_: object) -> tuple[int, int]:
        tmp_path.rename(tmp_path.with_name("moved"))
        return 0, os.geteuid()

    monkeypatch.setattr("edgetop.control.control_socket.peer_of", move)
    assert not give(tmp_path, Order("mark", "door")).error
    assert session.asked == [Order("mark", "door")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"", "ended without an answer"), (b"no\n", "not a line of JSON"), (b"x" * 5000, "not a line")],
)
def test_what_is_no_answer_is_told_in_a_line(answer: bytes, words: str, tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with address(tmp_path) as path:
        listener.bind(path)
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(MAX_LINE)
        connection.sendall(answer)
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(EdgetopError, match=words):
        give(tmp_path, Order("mark", "x"))
    thread.join()
    listener.close()
