"""The bounded terminal of a command (spec sections 5 and 7)."""

from __future__ import annotations

from term2_acp.agent.terminal import HEAD_BYTES, TAIL_BYTES, LiveTerminal
from term2_acp.eventlog import TerminalExited, TerminalOutput
from term2_acp.redaction import MARKER, Redactor

SECRET = "s3cr3t-value-42"


def run(*pieces: bytes) -> tuple[bytes, bytes, list]:
    """What the user is shown, what the tool is told, and the events."""
    events: list = []
    terminal = LiveTerminal("t", events.append, Redactor({"MY_KEY": SECRET}))
    told = b"".join(terminal.output(piece) for piece in pieces) + terminal.finish()
    terminal.exited(0, None)
    shown = b"".join(event.data for event in events if isinstance(event, TerminalOutput))
    return shown, told, events


def test_short_output_is_shown_as_it_is():
    """Every byte, in order, then the end; the tool is told the same."""
    shown, told, events = run(b"one\n", b"\xfftwo\x00", b"three")
    assert shown == told == b"one\n\xfftwo\x00three"
    assert events[-1] == TerminalExited("t", 0, None)


def test_much_output_keeps_its_head_and_tail_and_says_what_is_left_out():
    """Bounded whatever comes, and the number of bytes left out is exact."""
    lines = [b"%07d\n" % number for number in range(400_000)]
    whole = b"".join(lines)
    pieces = [whole[start : start + 65536] for start in range(0, len(whole), 65536)]
    shown, told, _ = run(*pieces)
    assert shown == told
    head, mark, tail = shown.partition(b"\r\n[... ")
    number, _, tail = tail.partition(b" bytes omitted ...]\r\n")
    assert mark
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + int(number) + len(tail) == len(whole)
    assert len(shown) <= HEAD_BYTES + TAIL_BYTES + 3 * 65536


def test_no_secret_is_shown_at_either_cut():
    """A secret that lies across the end of the head, or at the beginning of the tail."""
    line = SECRET.encode() + b" "
    pieces = [line * 4000 for _ in range(60)]
    shown, _, _ = run(b"x" * 7, *pieces, b"\nend\n")
    text = shown.decode()
    assert SECRET not in text
    assert SECRET[:8] not in text.replace(MARKER, "")
    assert text.endswith("end\n")
