"""
Sockets that a cancel can shut at any moment (spec section 2).

One exchange with a model service has one `Interrupter`. Whatever the exchange waits
for on the network is either a socket, which `interrupt` shuts, or a connection that
is still being made, which is left to its own thread until its time-out.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any

import httpcore2

from term2_acp.agent.ports import nothing_waits

# Name look-ups and connects that nobody waits for any more; each ends by its time-out.
_MAX_ATTEMPTS = 64
_attempts = threading.BoundedSemaphore(_MAX_ATTEMPTS)


class Interrupter:
    """
    Ends the present network wait of one exchange, and every later one.

    `interrupt` may be called from any thread and never blocks. `patience_s`, where it
    is set, bounds each further wait for bytes; only the reading thread touches it, and
    calls `before_wait` before it waits.
    """

    def __init__(self, before_wait: Callable[[], None] = nothing_waits) -> None:
        self.before_wait = before_wait
        self.patience_s: float | None = None
        self._lock = threading.Lock()
        self._interrupted = False
        self._end: Callable[[], None] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether `interrupt` was called."""
        return self._interrupted

    def interrupt(self) -> None:
        """End the present wait; whatever is tried afterwards ends at once too."""
        with self._lock:
            self._interrupted = True
            if self._end is not None:
                self._end()

    def watch(self, end: Callable[[], None]) -> None:
        """Make `end` the way to end the waits from now on."""
        with self._lock:
            self._end = end
            if self._interrupted:
                end()

    def close(self, sock: socket.socket) -> None:
        """Close a socket, never while `interrupt` is shutting it."""
        with self._lock:
            sock.close()


class InterruptibleBackend(httpcore2.NetworkBackend):
    """Makes the connections of one exchange."""

    def __init__(self, interrupter: Interrupter) -> None:
        self._interrupter = interrupter

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 (part of the interface)
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        """
        Connect on a thread of its own, which is abandoned on an interrupt.

        Raises:
            httpcore2.ConnectTimeout: no connection within `timeout` seconds, name
                look-up included.
            httpcore2.ConnectError: it failed, or the exchange was interrupted.
        """
        if self._interrupter.interrupted:
            raise httpcore2.ConnectError("interrupted")
        attempt = _Attempt(host, port, timeout)
        self._interrupter.watch(attempt.wake)
        sock = attempt.wait()
        # A peer that is gone already is told of by the first write or read.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return InterruptibleStream(sock, self._interrupter)


class InterruptibleStream(httpcore2.NetworkStream):
    """A connected socket; used by one thread, and shut by any."""

    def __init__(self, sock: socket.socket, interrupter: Interrupter) -> None:
        self._socket = sock
        self._interrupter = interrupter
        interrupter.watch(lambda: _shut(sock))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Wait for bytes; empty at the end of the stream and after an interrupt."""
        self._interrupter.before_wait()
        patience_s = self._interrupter.patience_s
        if patience_s is not None:
            timeout = patience_s if timeout is None else min(timeout, patience_s)
        try:
            self._socket.settimeout(timeout)
            return self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout(error) from error
        except OSError as error:
            raise httpcore2.ReadError(error) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`; `timeout` is for each wait."""
        view = memoryview(buffer)
        try:
            self._socket.settimeout(timeout)
            while view:
                view = view[self._socket.send(view) :]
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(error) from error
        except OSError as error:
            raise httpcore2.WriteError(error) from error

    def close(self) -> None:
        """Close the socket."""
        self._interrupter.close(self._socket)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Turn this stream into an encrypted one."""
        try:
            self._socket.settimeout(timeout)
            # The handshake comes after, when an interrupt knows of the new socket.
            encrypted = ssl_context.wrap_socket(
                self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            self.close()
            raise httpcore2.ConnectError(error) from error
        stream = InterruptibleStream(encrypted, self._interrupter)
        try:
            encrypted.do_handshake()
        except TimeoutError as error:
            stream.close()
            raise httpcore2.ConnectTimeout(error) from error
        except OSError as error:
            stream.close()
            raise httpcore2.ConnectError(error) from error
        return stream

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks of its streams."""
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        return None


class _Attempt:
    """One connection in the making, on a daemon thread that ends by its time-out."""

    def __init__(self, host: str, port: int, timeout: float | None) -> None:
        self._address = (host, port)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._abandoned = False
        self._socket: socket.socket | None = None
        self._error: Exception | None = None
        if not _attempts.acquire(blocking=False):
            raise httpcore2.ConnectError(
                f"{_MAX_ATTEMPTS} earlier connections and name look-ups still hang"
            )
        try:
            threading.Thread(target=self._run, name=f"term2-connect-{host}", daemon=True).start()
        except RuntimeError as error:
            _attempts.release()
            raise httpcore2.ConnectError(error) from error

    def wake(self) -> None:
        """End `wait` now."""
        self._awake.set()

    def wait(self) -> socket.socket:
        """
        Wait for the connection, the time-out or `wake`; then the attempt is abandoned.

        Raises:
            httpcore2.ConnectTimeout: the time is up.
            httpcore2.ConnectError: it failed, or `wake` was called.
        """
        in_time = self._awake.wait(self._timeout)
        with self._lock:
            self._abandoned = True
            connected, error = self._socket, self._error
        if connected is not None:
            return connected
        if isinstance(error, TimeoutError) or not in_time:
            raise httpcore2.ConnectTimeout("no connection in time") from error
        # As an argument, too: the pool of connections takes the cause away.
        raise httpcore2.ConnectError(error or "interrupted") from error

    def _run(self) -> None:
        try:
            self._finish(socket.create_connection(self._address, self._timeout), None)
        # A name that cannot be encoded is no OSError.
        except (OSError, UnicodeError) as error:
            self._finish(None, error)
        finally:
            _attempts.release()
            self._awake.set()

    def _finish(self, connected: socket.socket | None, error: Exception | None) -> None:
        with self._lock:
            abandoned = self._abandoned
            if not abandoned:
                self._socket, self._error = connected, error
        if abandoned and connected is not None:
            connected.close()


def _shut(sock: socket.socket) -> None:
    """End every wait on a socket; on the plain socket, below any encryption."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
