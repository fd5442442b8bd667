"""Sequences of lines that a client may send, right and wrong ones; hypothesis strategies."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

from tests.harness.client import CLIENT_INFO
from tests.harness.messages import Message
from tests.wire.oracle import FAIL, SLEEP

# Names that the one who sends puts the real ones for.
LIVE, CLOSED, PROJECT, FILE, HOME, OUTSIDE, LAST = (
    f"@{name}" for name in ("live", "closed", "project", "file", "home", "outside", "last")
)

ODD = st.sampled_from(
    [None, True, False, 0, -1, 1.5, 2**70, 1e300, "", "x", "\ud800", [], {}, [[]], {"": {}}]
)
JSON = st.recursive(
    st.one_of(ODD, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(
                st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]),
                st.text(max_size=3),
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=10,
)
IDS = st.sampled_from([0, 1, 2, 3, -1, 2**53 + 1, "1", "a", "", "\u2028", "\ud800", None])
BAD_IDS = st.sampled_from([True, False, 1.5, 2.0, [], {}, [1], {"id": 1}])

SESSIONS = st.sampled_from([LIVE] * 5 + [CLOSED] * 3 + ["no-such-session", "", "../../x"])
FOLDERS = st.sampled_from([PROJECT] * 8 + [FILE, HOME, "/", "/etc", "project", "", "/no/such"])
TEXTS = st.sampled_from(
    [
        *("/say x", "/say \u2028\u2029", SLEEP, "/think x\n/say y", f"/read {OUTSIDE}"),
        *("/read README.md", "/plan a; b", FAIL, "hello", " \n", "/say x\n" * 20),
    ]
)
BLOCKS = st.one_of(
    TEXTS.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "resource_link", "name": "x", "uri": "file:///x", "size": "odd"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": "x"}},
            {"type": "resource", "resource": {"uri": "file:///x", "blob": "eA=="}},
            {"type": "image", "data": "eA==", "mimeType": "image/png"},
        ]
    ),
)
PROMPTS = st.fixed_dictionaries(
    {
        "sessionId": SESSIONS,
        "prompt": st.one_of(
            TEXTS.map(lambda text: [{"type": "text", "text": text}]), st.lists(BLOCKS, max_size=3)
        ),
    }
)
OPENED = {"cwd": FOLDERS, "mcpServers": st.just([])}
STORED = st.fixed_dictionaries(
    {"sessionId": SESSIONS, **OPENED},
    optional={"replayFrom": st.sampled_from([None, {"type": "start"}, {"type": "end"}])},
)
CALLS = {
    "session/new": st.fixed_dictionaries(OPENED, optional={"additionalDirectories": ODD}),
    "session/list": st.one_of(
        st.none(), st.fixed_dictionaries({}, optional={"cwd": FOLDERS, "cursor": ODD})
    ),
    "session/prompt": PROMPTS,
    "session/cancel": st.fixed_dictionaries({"sessionId": SESSIONS}),
    "session/close": st.fixed_dictionaries({"sessionId": SESSIONS}),
    "session/resume": STORED,
    "session/load": STORED,
    "$/cancel_request": st.fixed_dictionaries({"requestId": st.one_of(IDS, st.just(LAST))}),
    "initialize": st.fixed_dictionaries(
        {"protocolVersion": st.sampled_from([2, 1, 0, 99, -1, 2**70, "2", None])},
        optional={"info": st.sampled_from([CLIENT_INFO, CLIENT_INFO, {}, None, "x"])},
    ),
    "authenticate": st.none(),
    "session/set_mode": st.just({"sessionId": LIVE, "modeId": "x"}),
    "session/update": st.just({"sessionId": LIVE, "update": {}}),
    "fs/read_text_file": st.just({"sessionId": LIVE, "path": "/etc/passwd"}),
    "no/such": st.just([1]),
}
FREQUENT = ["session/prompt"] * 4 + ["session/cancel", "session/close", "session/resume"] * 2


@attrs.frozen
class Step:
    """
    One line, as a value or as bytes, or a wait for all that is open (`value` is None).

    `cut` is where its bytes are parted in two writes; without one it goes out with the
    lines after it.
    """

    value: Any
    cut: int | None = None
    end: bytes = b"\n"


@st.composite
def calls(draw: st.DrawFn) -> Message:
    """A request or a notification that is right by itself, whatever it is about."""
    method = draw(st.sampled_from(FREQUENT + sorted(CALLS)))
    message: Message = {"jsonrpc": "2.0", "method": method}
    params = draw(CALLS[method])
    if params is not None or draw(st.booleans()):
        message["params"] = params
    if draw(st.sampled_from([True, True, True, True, False])):
        message["id"] = draw(st.one_of(IDS, IDS, IDS, IDS, BAD_IDS))
    return message


REPLIES = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": st.one_of(st.integers(0, 5), IDS, BAD_IDS),
        "result": st.sampled_from(
            [
                {},
                None,
                {"outcome": {"outcome": "selected", "optionId": "approve"}},
                {"outcome": {"outcome": "selected", "optionId": 5}},
                {"outcome": {"outcome": "cancelled"}},
            ]
        ),
    },
    optional={"error": st.sampled_from([{"code": -32601, "message": "no"}, None, 5])},
)


@st.composite
def spoilt(draw: st.DrawFn, message: Any) -> Any:
    """A copy with one member, somewhere in it, replaced, renamed or taken away."""
    if not isinstance(message, dict | list) or not message or draw(st.integers(0, 6)) == 0:
        return draw(ODD)
    if isinstance(message, list):
        place = draw(st.integers(0, len(message) - 1))
        return [*message[:place], draw(spoilt(message[place])), *message[place + 1 :]]
    key = draw(st.sampled_from(sorted(message)))
    rest = {name: value for name, value in message.items() if name != key}
    match draw(st.integers(0, 5)):
        case 0:
            return rest
        case 1:
            return {**rest, key + "x": message[key]}
        case _:
            return {**rest, key: draw(spoilt(message[key]))}


SINGLE = st.one_of(calls(), calls(), calls().flatmap(spoilt), REPLIES)
BATCHES = st.lists(st.one_of(SINGLE, SINGLE, JSON), max_size=5)
VALUES = st.one_of(SINGLE, SINGLE, SINGLE, BATCHES, JSON)
BYTES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"", b" \t\r", b"{", b"[1,]", b"{} {}", b"\xff", b"NaN", b"[" * 5000])
    | st.sampled_from([b'{"jsonrpc":"2.0","id":1,"method":"session/list"', b"\xef\xbb\xbf{}"]),
).map(lambda data: data.replace(b"\n", b""))
STEPS = st.builds(
    Step,
    st.one_of(*[SINGLE] * 6, *[VALUES] * 3, BYTES, st.just(None)),
    st.one_of(st.none(), st.none(), st.integers(0, 400)),
    st.sampled_from([b"\n", b"\n", b"\r\n", b"\n\n", b"\n \r\n"]),
)
SEQUENCES = st.lists(STEPS, min_size=8, max_size=24)
# What the client says to each question, in order; none of them may be all.
SAID = st.lists(
    st.sampled_from(["id as text", "id as fraction", "other id", "error", "malformed", "approve"]),
    max_size=3,
)
