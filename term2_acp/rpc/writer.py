"""The writer thread: the one place that writes to the client."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from term2_acp.rpc.outbox import Chunk, Outbox
from term2_acp.rpc.output import Output, PipeOutput

if TYPE_CHECKING:
    from term2_acp.agent.cancel import CancelToken

logger = logging.getLogger(__name__)

_BATCH_BYTES = 64 * 1024


class Writer:
    """
    Serializes responses, notifications and our requests onto one descriptor.

    All methods may be called from any thread. `on_gone` is called once, from any
    thread, when the client cannot be written to any more or has stopped reading
    for good; from then on everything is dropped. `tap` is given what is about to be
    written, in whole lines; it must not wait.
    """

    def __init__(
        self,
        stdout_fd: int,
        on_gone: Callable[[str], None],
        tap: Callable[[bytes], None] | None = None,
        open_output: Callable[[int], Output] = PipeOutput,
    ) -> None:
        self._fd = stdout_fd
        self._tap = tap
        self._open_output = open_output
        self._on_gone = on_gone
        self._outbox = Outbox(lambda: self._gone("the client does not read its responses"))
        self._gone_lock = threading.Lock()
        self._is_gone = False
        self._abort_read, self._abort_write = os.pipe()
        self._thread = threading.Thread(target=self._run_safely, name="term2-writer", daemon=True)

    def start(self) -> None:
        """Start the thread; once."""
        self._thread.start()

    def send(self, message: Any) -> None:
        """Queue a response or a request of ours; never waits and is never dropped."""
        self._outbox.put(message)

    def send_update(self, session_id: str, message: Any, *, is_essential: bool = True) -> None:
        """
        Queue a session's notification; never waits (see `wait_for_room`).

        Too many essential ones that are not read mean that the client is gone.
        """
        self._outbox.put_update(session_id, message, is_essential=is_essential)

    def together(self) -> AbstractContextManager[object]:
        """Send what is sent in the block at its end; nobody may be waited for in it."""
        return self._outbox.together()

    def send_chunk(self, session_id: str, chunk: Chunk) -> None:
        """Queue a session's text or terminal chunk; never waits (see `wait_for_room`)."""
        self._outbox.put_chunk(session_id, chunk)

    def wait_for_room(self, session_id: str, cancel: CancelToken) -> None:
        """Make a producer wait while its session has too much queued (spec section 3)."""
        self._outbox.wait_for_room(session_id, cancel)

    def stop(self, timeout_s: float) -> None:
        """Write what is queued, for at most `timeout_s` seconds, and end the thread."""
        self._outbox.close()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._outbox.discard()
            os.write(self._abort_write, b"\0")
            self._thread.join(timeout_s)

    def _run_safely(self) -> None:
        try:
            self._run()
        except Exception:
            logger.exception("the writer failed")
            self._gone("the writer failed")

    def _run(self) -> None:
        # The thread waits only in `poll`, where it can be interrupted.
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        poll.register(self._abort_read, select.POLLIN)
        output = self._open_output(self._fd)
        try:
            while (data := self._outbox.take(_BATCH_BYTES)) is not None:
                if self._tap is not None:
                    self._tap(data)
                if not self._write(poll, output, data):
                    return
        finally:
            output.close()

    def _write(self, poll: select.poll, output: Output, data: bytes) -> bool:
        view = memoryview(data)
        wait = output.must_poll
        while view:
            if wait and any(fd == self._abort_read for fd, _events in poll.poll()):
                return False
            # Whatever did not take all of it is full.
            wait = True
            try:
                written = output.write(view)
            except BlockingIOError:
                continue
            except OSError as error:
                self._gone(f"stdout is broken: {error.strerror}")
                return False
            view = view[written:]
        return True

    def _gone(self, reason: str) -> None:
        with self._gone_lock:
            if self._is_gone:
                return
            self._is_gone = True
        self._outbox.discard()
        self._on_gone(reason)
