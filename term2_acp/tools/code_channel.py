"""
The server's end of the pipe through which running code calls tools (spec section 7).

Both directions are lines of JSON. First the code goes in: `{"code": TEXT}`. Then each request
`{"tool": NAME, "arguments": {...}}` gets one answer `{"failed": BOOL, "text": TEXT}`. What
comes out of the sandbox is not trusted: it is bounded, checked, and answered one at a time, so
that code which floods us waits for itself.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import ToolOutcome
from term2_acp.surrogates import replace_in_value

LARGEST_REQUEST = 16 << 20
"""The longest line that is taken from the code, in bytes."""
MOST_CALLS = 1000
"""So many calls may one run of code make."""
_MOST_MALFORMED = 100
_PIECE = 1 << 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class CodeChannel:
    """
    Serves the calls of one run of code on a thread of its own, `term2-code`.

    Args:
        code: what is to run.
    """

    def __init__(self, code: str) -> None:
        self._code = code
        self._ours, self._theirs = socket.socketpair()
        self._calls = 0
        self._malformed = 0
        self.failure: Exception | None = None

    @property
    def descriptor(self) -> int:
        """The code's end, to be inherited."""
        return self._theirs.fileno()

    @contextmanager
    def serving(
        self, call: Callable[[str, str], ToolOutcome], on_failure: Callable[[], None]
    ) -> Iterator[None]:
        """
        Serve while the block runs, once; the block ends the call that may be under way.

        Args:
            call: runs a tool, given its name and its arguments as JSON text.
            on_failure: called, on our thread, when `call` raised other than Cancelled;
                that is then the `failure`.
        """
        thread = threading.Thread(target=self._serve, args=(call, on_failure), name="term2-code")
        thread.start()
        try:
            yield
        finally:
            self._ours.shutdown(socket.SHUT_RDWR)
            thread.join()
            self._ours.close()
            self._theirs.close()

    def _serve(
        self, call: Callable[[str, str], ToolOutcome], on_failure: Callable[[], None]
    ) -> None:
        try:
            self._send({"code": self._code})
            for line in self._lines():
                self._send(self._answer(line, call))
                if self._malformed > _MOST_MALFORMED:
                    break
        except (OSError, Cancelled):
            # The code has ended, or was ended.
            pass
        except Exception as error:  # noqa: BLE001  raised again by whoever runs the code
            self.failure = error
            on_failure()
        finally:
            # Code that waits for an answer goes on, and its next call fails at once.
            self._ours.shutdown(socket.SHUT_RDWR)

    def _lines(self) -> Iterator[bytes | None]:
        """Yield what comes in; None for a line that is too long and was discarded."""
        line = bytearray()
        too_long = False
        while piece := self._ours.recv(_PIECE):
            *ends, rest = piece.split(b"\n")
            for end in ends:
                line += end
                yield None if too_long or len(line) > LARGEST_REQUEST else bytes(line)
                line.clear()
                too_long = False
            line += rest
            if len(line) > LARGEST_REQUEST:
                line.clear()
                too_long = True

    def _answer(
        self, line: bytes | None, call: Callable[[str, str], ToolOutcome]
    ) -> dict[str, Any]:
        request = None if line is None else _parsed(line)
        if request is None:
            self._malformed += 1
            text = (
                f"no call: a request is one line of at most {LARGEST_REQUEST >> 20} MiB, "
                '{"tool": NAME, "arguments": {...}}'
            )
            return {"failed": True, "text": text}
        self._calls += 1
        if self._calls > MOST_CALLS:
            text = f"this code has made {MOST_CALLS} calls, which is the most that it may make"
            return {"failed": True, "text": text}
        outcome = call(*request)
        return {"failed": outcome.failed, "text": outcome.text}

    def _send(self, message: dict[str, Any]) -> None:
        self._ours.sendall(json.dumps(message).encode() + b"\n")


def _parsed(line: bytes) -> tuple[str, str] | None:
    """Return the tool and the JSON text of its arguments, None if the line is no request."""
    try:
        request = replace_in_value(json.loads(line))
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict) or request.keys() != {"tool", "arguments"}:
        return None
    name, arguments = request["tool"], request["arguments"]
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(arguments, dict):
        return None
    return name, json.dumps(arguments, ensure_ascii=False)
