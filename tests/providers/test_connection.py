"""The sockets of an exchange: encryption, hanging connects, interrupts from other threads."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpcore2
import pytest

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import ProviderError, UserTurn
from term2_acp.providers.chat_completions import ChatCompletionsProvider
from term2_acp.providers.connection import Interrupter, InterruptibleBackend
from tests.harness.programs import program
from tests.models.http import DEADLINE_S
from tests.providers.conftest import request


@contextmanager
def _listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_an_interrupted_exchange_connects_no_more():
    """After an interrupt every connect fails at once, and nothing is left open."""
    interrupter = Interrupter()
    interrupter.interrupt()
    with _listener() as listener, pytest.raises(httpcore2.ConnectError):
        InterruptibleBackend(interrupter).connect_tcp(*listener.getsockname(), timeout=DEADLINE_S)


def test_a_name_that_is_none_is_a_failed_connect():
    """A host that cannot even be looked up is an ordinary fault."""
    with pytest.raises(httpcore2.ConnectError):
        InterruptibleBackend(Interrupter()).connect_tcp("a" * 80 + ".invalid", 80, timeout=5)


def test_an_interrupt_ends_a_read():
    """A read that waits for bytes ends with the end of the stream."""
    interrupter = Interrupter()
    with _listener() as listener:
        backend = InterruptibleBackend(interrupter)
        stream = backend.connect_tcp(*listener.getsockname(), timeout=DEADLINE_S)
        timer = threading.Timer(0.1, interrupter.interrupt)
        timer.start()
        assert b"" == stream.read(100, timeout=DEADLINE_S)
        timer.join()
        stream.close()
        interrupter.interrupt()


def test_an_interrupt_ends_a_write():
    """A write to a peer that does not read ends with an error."""
    interrupter = Interrupter()
    with _listener() as listener:
        backend = InterruptibleBackend(interrupter)
        stream = backend.connect_tcp(*listener.getsockname(), timeout=DEADLINE_S)
        timer = threading.Timer(0.1, interrupter.interrupt)
        timer.start()
        with pytest.raises(httpcore2.WriteError):
            stream.write(b"x" * 50_000_000, timeout=DEADLINE_S)
        timer.join()
        stream.close()


def test_an_interrupt_ends_a_handshake():
    """A peer that does not answer the TLS handshake is left at once."""
    interrupter = Interrupter()
    with _listener() as listener:
        backend = InterruptibleBackend(interrupter)
        stream = backend.connect_tcp(*listener.getsockname(), timeout=DEADLINE_S)
        timer = threading.Timer(0.1, interrupter.interrupt)
        timer.start()
        with pytest.raises(httpcore2.ConnectError):
            stream.start_tls(ssl.create_default_context(), "localhost", timeout=DEADLINE_S)
        timer.join()


def test_a_handshake_that_takes_too_long_is_a_connect_time_out():
    """The time-out of the connect holds for the handshake, too."""
    with _listener() as listener:
        backend = InterruptibleBackend(Interrupter())
        stream = backend.connect_tcp(*listener.getsockname(), timeout=DEADLINE_S)
        with pytest.raises(httpcore2.ConnectTimeout):
            stream.start_tls(ssl.create_default_context(), "localhost", timeout=0.1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that only itself vouches for, with its key."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(path), "-out", str(path.with_suffix(".crt"))],
        check=True,
        capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


@contextmanager
def _encrypted_peer(certificate: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Accepts one connection with TLS, and keeps what it is sent until it is shut."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    received: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(DEADLINE_S)
        try:
            with context.wrap_socket(connection, server_side=True) as encrypted:
                while data := encrypted.recv(1000):
                    received.append(data)
                    encrypted.sendall(b"pong\r\n\r\n")
        except OSError:
            # The client did not trust the certificate, or shut the socket below TLS.
            pass

    with _listener() as listener:
        thread = threading.Thread(target=serve, name="encrypted-peer", daemon=True)
        thread.start()
        yield listener.getsockname()[1], received
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_an_interrupt_ends_an_encrypted_read(certificate):
    """TLS changes nothing: bytes go both ways, and a waiting read ends at once."""
    interrupter = Interrupter()
    context = ssl.create_default_context(cafile=str(certificate))
    with _encrypted_peer(certificate) as (port, received):
        backend = InterruptibleBackend(interrupter)
        plain = backend.connect_tcp("127.0.0.1", port, timeout=DEADLINE_S)
        stream = plain.start_tls(context, "localhost", timeout=DEADLINE_S)
        stream.write(b"ping", timeout=DEADLINE_S)
        assert b"pong\r\n\r\n" == stream.read(100, timeout=DEADLINE_S)
        assert [b"ping"] == received
        timer = threading.Timer(0.1, interrupter.interrupt)
        timer.start()
        # TLS may call the missing farewell an error.
        with contextlib.suppress(httpcore2.ReadError):
            assert b"" == stream.read(100, timeout=DEADLINE_S)
        timer.join()
        stream.close()


def test_a_certificate_that_nobody_vouches_for_is_named(certificate):
    """An untrusted certificate is a fault of its own, and no retry helps."""
    with _encrypted_peer(certificate) as (port, _received):
        provider = ChatCompletionsProvider(
            "scripted", base_url=f"https://localhost:{port}/v1", api_key="k", idle_timeout_s=10
        )
        with pytest.raises(ProviderError) as caught:
            list(provider.stream(request(UserTurn("Hello")), CancelToken()))
    assert "certificate" in caught.value.message
    assert not caught.value.retryable


@contextmanager
def _tunnel() -> Iterator[tuple[str, list[str]]]:
    """A proxy that takes one CONNECT, remembers it, and passes bytes both ways."""
    asked: list[str] = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1000):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        client, _ = listener.accept()
        client.settimeout(DEADLINE_S)
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1000)
        asked.append(head.split(b"\r\n")[0].decode())
        port = int(asked[0].split()[1].rpartition(":")[2])
        with client, socket.create_connection(("127.0.0.1", port), DEADLINE_S) as peer:
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(
                name="test-reader", target=pump, args=(peer, client), daemon=True
            )
            back.start()
            pump(client, peer)
            back.join(DEADLINE_S)

    with _listener() as listener:
        thread = threading.Thread(target=serve, name="tunnel", daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_encryption_goes_through_a_proxy(certificate):
    """A service with TLS behind a proxy is reached through its tunnel."""
    context = ssl.create_default_context(cafile=str(certificate))
    with _encrypted_peer(certificate) as (port, received), _tunnel() as (proxy, asked):
        backend = InterruptibleBackend(Interrupter())
        with (
            httpcore2.HTTPProxy(proxy, ssl_context=context, network_backend=backend) as pool,
            # The peer speaks no HTTP.
            pytest.raises(httpcore2.RemoteProtocolError),
        ):
            pool.request("GET", f"https://localhost:{port}/")
    assert [f"CONNECT localhost:{port} HTTP/1.1"] == asked
    assert b"".join(received).startswith(b"GET / HTTP/1.1")
