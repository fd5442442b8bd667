"""
A scripted HTTP server on loopback, in plain threads, that can misbehave in every way.

It sends exactly the bytes that a test gives it, stalls, cuts and resets where it is
told to, and records what it was sent.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any

import attrs

DEADLINE_S = 20.0


class Then(Enum):
    """What happens instead of bytes."""

    # Nothing more comes, until the client hangs up.
    STALL = "stall"
    # The connection is closed in an orderly way, in the middle of the answer.
    CUT = "cut"
    RESET = "reset"


@attrs.frozen
class Until:
    """Goes on once the test sets the event."""

    event: threading.Event


Part = bytes | Then | Until


@attrs.frozen
class Reply:
    """
    One answer.

    Each piece of bytes is sent on its own, as one chunk of the transfer encoding,
    unless `length` is set: then the body is sent with a Content-Length; or `until_close`:
    then it ends with the connection. `label` is how a service recognizes the answer that
    it gave.
    """

    parts: tuple[Part, ...] = ()
    status: int = 200
    content_type: str | None = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()
    before_headers: Part | None = None
    length: bool = False
    until_close: bool = False
    label: str = ""


def json_reply(status: int, body: Any, *headers: tuple[str, str]) -> Reply:
    """An answer in JSON, as errors are."""
    return Reply((json.dumps(body).encode(),), status, "application/json", headers, length=True)


def text_reply(status: int, text: str, content_type: str, *headers: tuple[str, str]) -> Reply:
    """An answer of any other kind."""
    return Reply((text.encode(),), status, content_type, headers, length=True)


@attrs.frozen
class Request:
    """What the server was sent; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """The body as strict JSON."""
        return json.loads(self.raw.decode("utf-8"))


class HttpServer:
    """Answers each request with the next reply of the script."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._replies: deque[Reply] = deque()
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.requests: list[Request] = []
        self.hang_ups = 0
        self.faults: list[str] = []
        self._start(self._accept, "models-accept")

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reply(self, *replies: Reply) -> None:
        """Add to the script."""
        with self._changed:
            self._replies.extend(replies)

    def forget_script(self) -> None:
        """Take back what was not asked for."""
        with self._changed:
            self._replies.clear()

    def settle(self) -> None:
        """Wait until every connection that was made has ended; the clients must be gone."""
        # Connections are accepted in the order in which they were made.
        socket.create_connection(("127.0.0.1", self.port), DEADLINE_S).close()
        with self._changed:
            assert self._changed.wait_for(lambda: not self._connections, DEADLINE_S)

    def wait_for_requests(self, count: int) -> list[Request]:
        """The first requests, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, DEADLINE_S)
            return self.requests[:count]

    def wait_for_hang_up(self) -> None:
        """Wait until a client hung up on a stalled answer."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.hang_ups > 0, DEADLINE_S)

    def close(self) -> None:
        """End every connection and thread."""
        with self._changed:
            self._closed = True
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)
        # An accept does not end when its socket is closed; it ends with a connection.
        socket.create_connection(("127.0.0.1", self.port), DEADLINE_S).close()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        self._listener.close()

    def respond(self, request: Request) -> Reply:
        """The answer to a request: a refusal by the vendor's rules, or the script's next."""
        refusal = self.judge(request)
        if refusal is not None:
            return refusal
        with self._changed:
            if not self._replies:
                self.faults.append(f"nothing is scripted for {request.method} {request.path}")
                return text_reply(500, "nothing is scripted", "text/plain")
            return self._replies.popleft()

    def judge(self, request: Request) -> Reply | None:
        """The refusal that a request deserves, if it breaks a rule."""
        return None

    def _start(self, target: Any, name: str, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            connection, _address = self._listener.accept()
            with self._changed:
                if self._closed:
                    connection.close()
                    return
                self._connections.add(connection)
            self._start(self._serve, "models-serve", connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb") as reader:
                request = _read_request(reader)
                if request is None:
                    return
                with self._changed:
                    self.requests.append(request)
                    self._changed.notify_all()
                self._send(connection, self.respond(request))
        except OSError:
            # The client went away, which tests look at by other means.
            pass
        finally:
            with self._changed:
                self._connections.discard(connection)
                self._changed.notify_all()

    def _send(self, connection: socket.socket, reply: Reply) -> None:
        if reply.before_headers is not None and not self._perform(connection, reply.before_headers):
            return
        headers = list(reply.headers)
        if reply.content_type is not None:
            headers.append(("Content-Type", reply.content_type))
        if reply.length:
            size = sum(len(part) for part in reply.parts if isinstance(part, bytes))
            headers.append(("Content-Length", str(size)))
        elif not reply.until_close:
            headers.append(("Transfer-Encoding", "chunked"))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        connection.sendall(f"HTTP/1.1 {reply.status} Scripted\r\n{lines}\r\n".encode("latin-1"))
        for part in reply.parts:
            if not isinstance(part, bytes):
                if not self._perform(connection, part):
                    return
            elif reply.length or reply.until_close:
                connection.sendall(part)
            elif part:
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        if not reply.length and not reply.until_close:
            connection.sendall(b"0\r\n\r\n")

    def _perform(self, connection: socket.socket, part: Part) -> bool:
        """Do what is no bytes; whether the answer goes on."""
        match part:
            case Until(event):
                return event.wait(DEADLINE_S)
            case Then.STALL:
                # A client sends nothing more, so this ends when it hangs up.
                connection.recv(1)
                with self._changed:
                    self.hang_ups += 1
                    self._changed.notify_all()
            case Then.RESET:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return False


def _read_request(reader: Any) -> Request | None:
    line = reader.readline().decode("latin-1").split()
    if len(line) < 2:
        return None
    headers: dict[str, str] = {}
    while (header := reader.readline().strip()) != b"":
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = reader.read(int(headers.get("content-length", "0")))
    return Request(line[0], line[1], headers, raw)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def server_sent_event(data: Any, event: str | None = None) -> bytes:
    """One event of a stream, as the vendors write it."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def in_pieces(data: bytes, sizes: Sequence[int]) -> tuple[bytes, ...]:
    """The same bytes, cut after `sizes`, the last of which is repeated."""
    pieces: list[bytes] = []
    start = 0
    for index in range(len(data)):
        if start >= len(data):
            break
        size = max(1, sizes[min(index, len(sizes) - 1)])
        pieces.append(data[start : start + size])
        start += size
    return tuple(pieces)
