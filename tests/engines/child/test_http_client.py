"""The HTTP client of servers: a document that does not end is given up."""

import socket

import pytest

from edgetop.engines.child.http_client import Answer, HttpError

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(("within_s", "said"), [(0.0, "takes longer than 0 s"), (None, "closed the connection")])
def test_an_answer_must_come_within_its_time(within_s, said):
    ours, theirs = socket.socketpair()
    theirs.sendall(HEAD + b"5\r\nhello\r\n" * 100)
    theirs.close()
    with pytest.raises(HttpError, match=said), Answer(ours, lambda: False, within_s) as answer:
        answer.whole()
