"""
`term2 acp`: builds the server, runs it and takes it down (spec sections 3 and 11).

What is not needed for the answer to `initialize` is imported after it, inside
functions of this module: everything of the core comes with `composition`.
"""

from __future__ import annotations

import logging
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from term2_acp import stdio
from term2_acp.folders import Folders
from term2_acp.handlers.handshake import Handshake
from term2_acp.rpc.dispatcher import Dispatcher
from term2_acp.rpc.inbox import Inbox
from term2_acp.rpc.outbound import OutboundRequests
from term2_acp.rpc.output import Output, PipeOutput
from term2_acp.rpc.reader import Reader
from term2_acp.rpc.workers import WorkerPool
from term2_acp.rpc.writer import Writer

if TYPE_CHECKING:
    from term2_acp.config import Config
    from term2_acp.registry import SessionRegistry
    from term2_acp.rpc.engine import Engine
    from term2_acp.selection import Selection
    from term2_acp.trace import Trace

logger = logging.getLogger(__name__)

_MAX_REQUEST_THREADS = 16
_MAX_QUEUED = 1024
# Together these stay under the 5 s of spec section 11.
_TURNS_END_S = 2.5
_REPLAYS_END_S = 0.5
_DRAIN_S = 1.0
_READER_END_S = 0.3
_TRACE_END_S = 0.3


def run(flags: Mapping[str, str]) -> int:
    """Serve until the client is gone or a signal comes; returns the exit status."""
    folders = Folders.of_user()
    try:
        config, selection = _configure(folders, flags)
    except ConfigRefusedError as error:
        sys.stderr.write(f"term2: {error}\n")
        return 1
    if os.geteuid() == 0:
        logger.warning("running as root: commands stay in the sandbox, but a normal user is safer")
    server = Server(folders, config, selection, *stdio.claim(), trace=_open_trace())
    finished = server.serve()
    logging.shutdown()
    if not finished:
        # A thread is stuck in a wait that cannot be interrupted; it ends with us.
        os._exit(0)
    return 0


class ConfigRefusedError(Exception):
    """The configuration or a flag was refused; the text is for stderr."""


def _configure(
    folders: Folders, flags: Mapping[str, str]
) -> tuple[Config | None, Selection | None]:
    """Read the file and resolve the flags; nothing is loaded when there is neither."""
    has_file = _is_there(folders.config_file)
    if not has_file and not flags:
        return None, None
    from term2_acp import config, config_file, selection  # noqa: PLC0415

    try:
        settings, warnings = (
            config_file.load(folders.config_file) if has_file else (config.Config(), [])
        )
        chosen = selection.select(
            settings,
            provider=flags.get("--provider"),
            model=flags.get("--model"),
            effort=flags.get("--effort"),
        )
    except config.ConfigError as error:
        raise ConfigRefusedError(str(error)) from None
    for warning in warnings:
        logger.warning(warning)
    return settings, chosen


def _open_trace() -> Trace | None:
    """What TERM2_TRACE asks for; a file that cannot be written is warned of, no more."""
    path = os.environ.get("TERM2_TRACE")
    if not path:
        return None
    from term2_acp.trace import Trace  # noqa: PLC0415

    try:
        return Trace(path)
    except OSError as error:
        reason = error.strerror
        logger.warning("TERM2_TRACE: %s cannot be written (%s); nothing is traced", path, reason)
        return None


def _open_output(fd: int) -> Output:
    """What writes to the client without blocking."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return PipeOutput(fd)
    from term2_acp.rpc.socket_output import SocketOutput  # noqa: PLC0415

    return SocketOutput(fd)


def _is_there(path: str) -> bool:
    """Whether there is anything of that name; what cannot be looked at is."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


class Server:
    """Owns every thread of the process but the main one, which dispatches."""

    def __init__(
        self,
        folders: Folders,
        config: Config | None,
        selection: Selection | None,
        stdin_fd: int,
        stdout_fd: int,
        *,
        trace: Trace | None = None,
    ) -> None:
        self._folders = folders
        self._config = config
        self._selection = selection
        self._inbox = Inbox()
        self._trace = trace
        self._reader = Reader(stdin_fd, stdout_fd, self._inbox, trace.received if trace else None)
        self._writer = Writer(
            stdout_fd, self._inbox.put_end, trace.sent if trace else None, _open_output
        )
        self._outbound = OutboundRequests(self._writer)
        max_sessions = config.max_sessions if config else 128
        # A session has a prompt and a close at most, also while one is being closed.
        self._turns = WorkerPool("turn", max_threads=2 * max_sessions + 8, max_queued=_MAX_QUEUED)
        self._requests = WorkerPool(
            "request", max_threads=_MAX_REQUEST_THREADS, max_queued=_MAX_QUEUED
        )
        self._registry: SessionRegistry | None = None
        self._engine: Engine | None = None
        self._engine_lock = threading.Lock()
        self._warm_up = threading.Thread(
            target=self._load_quietly, name="term2-warm-up", daemon=True
        )
        self._handshake = Handshake(self._load, self._start_warm_up)
        self._dispatcher = Dispatcher(
            self._inbox,
            self._writer,
            self._outbound,
            self._handshake,
            (self._turns, self._requests),
        )

    def serve(self) -> bool:
        """Run until the end; whether every thread ended in time."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _noticed_by_the_reader)
        signal.set_wakeup_fd(self._reader.wakeup_fd, warn_on_full_buffer=False)
        if self._trace is not None:
            self._trace.start()
        self._writer.start()
        self._reader.start()
        reason = self._dispatcher.run()
        logger.info("ending: %s", reason)
        return self._shut_down()

    def _shut_down(self) -> bool:
        """Cancel, wait, flush, close: what was read is answered, what runs is killed."""
        self._inbox.close()
        deadline = time.monotonic() + _TURNS_END_S
        with self._engine_lock:
            registry = self._registry
        if registry is not None:
            registry.cancel_turns()
        self._outbound.close()
        finished = self._turns.join(max(deadline - time.monotonic(), 0))
        finished &= self._requests.join(max(deadline - time.monotonic(), _REPLAYS_END_S))
        if registry is not None and not finished:
            registry.cancel_replays()
            self._dispatcher.cancel_in_flight()
            finished = self._turns.join(_REPLAYS_END_S) & self._requests.join(_REPLAYS_END_S)
        self._writer.stop(_DRAIN_S)
        if registry is not None:
            registry.close()
        self._reader.stop(_READER_END_S)
        if self._trace is not None:
            self._trace.stop(_TRACE_END_S)
        return finished

    def _start_warm_up(self) -> None:
        try:
            self._warm_up.start()
        except RuntimeError:
            logger.warning("no thread can be started to warm up")

    def _load_quietly(self) -> None:
        try:
            self._handshake.engine()
        except Exception:
            logger.debug("warming up failed", exc_info=True)

    def _load(self, version: int) -> Engine:
        with self._engine_lock:
            if self._engine is None:
                from term2_acp.composition import build  # noqa: PLC0415

                self._registry, self._engine = build(
                    version,
                    folders=self._folders,
                    config=self._config,
                    selection=self._selection,
                    writer=self._writer,
                    outbound=self._outbound,
                )
            return self._engine


def _noticed_by_the_reader(_number: int, _frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written; it does the work."""
