"""The reader thread: the one place that reads stdin, and that notices signals and hang-ups."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable

from term2_acp.errors import AcpError
from term2_acp.rpc.framing import LineSplitter, LineTooLong, decode, is_blank
from term2_acp.rpc.inbox import Inbox, Received, Rejected

logger = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
_STOP = b"\0"


class Reader:
    """
    Parses stdin into the inbox until the end of input, and watches for the end.

    It also polls the client's end of stdout, so that a client that is gone is
    noticed although nothing is being written, and a pipe on which the interpreter
    writes the number of each signal (`signal.set_wakeup_fd`): the second signal
    ends the process at once (spec section 11). `stop` ends the thread. `tap` is given
    each line, None for one that was discarded; it must not wait.
    """

    def __init__(
        self,
        stdin_fd: int,
        stdout_fd: int,
        inbox: Inbox,
        tap: Callable[[bytes | None], None] | None = None,
    ) -> None:
        self._stdin_fd = stdin_fd
        self._stdout_fd = stdout_fd
        self._inbox = inbox
        self._tap = tap
        self._splitter = LineSplitter()
        self._wake_read, self.wakeup_fd = os.pipe()
        # `set_wakeup_fd` wants it so; the other end is only read when it has data.
        os.set_blocking(self.wakeup_fd, False)
        self._signals = 0
        self._thread = threading.Thread(target=self._run_safely, name="term2-reader", daemon=True)

    def start(self) -> None:
        """Start the thread; once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread and wait for it; called by the owner after the inbox is closed."""
        os.write(self.wakeup_fd, _STOP)
        self._thread.join(timeout_s)

    def _run_safely(self) -> None:
        try:
            self._run()
        except Exception:
            # Without this thread nothing would ever end the process.
            logger.exception("the reader failed")
            self._inbox.put_end("the reader failed")

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        poll.register(self._stdin_fd, select.POLLIN)
        poll.register(self._stdout_fd, 0)
        while True:
            for fd, _events in poll.poll():
                if fd == self._wake_read:
                    if not self._handle_wakeup():
                        return
                elif fd == self._stdout_fd:
                    poll.unregister(fd)
                    self._inbox.put_end("the client closed its end of stdout")
                elif not self._read_some():
                    poll.unregister(fd)
                    self._inbox.put_end("end of input")

    def _handle_wakeup(self) -> bool:
        for number in os.read(self._wake_read, 64):
            if number == 0:
                return False
            self._signals += 1
            if self._signals > 1:
                os._exit(128 + number)
            self._inbox.put_end(f"signal {number}")
        return True

    def _read_some(self) -> bool:
        """Read once; whether there may be more."""
        try:
            data = os.read(self._stdin_fd, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            logger.debug("stdin cannot be read any more: %s", error)
            data = b""
        for line in self._splitter.feed(data) if data else self._splitter.finish():
            self._accept(line)
        return bool(data)

    def _accept(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, bytes) and is_blank(line):
            return
        if self._tap is not None:
            self._tap(line if isinstance(line, bytes) else None)
        try:
            value = decode(line)
        except AcpError as error:
            self._inbox.put(Rejected(error))
        else:
            self._inbox.put(Received(value, len(line) if isinstance(line, bytes) else 0))
