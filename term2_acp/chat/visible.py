"""
Text of others made harmless: nothing in it can drive the terminal or feign another line.

Whatever comes from a model, a tool, a file name or the server goes through here before
it is laid out. Escape sequences would move the cursor, set the title or answer for the
user; characters that reorder or hide text would show another command than is run.
"""

from __future__ import annotations

import re

# Format characters that cannot be seen; the joiners of scripts and emoji are left alone.
_UNSEEN = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_SURROGATES = "\ud800-\udfff"
_CONTROLS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_UNSEEN}{_SURROGATES}]")
# What programs write to colour and to move about: CSI, OSC and their like, other escapes.
_SEQUENCES = re.compile(
    r"""
      (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?
    | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?
    | \x1b[ -/]*[0-~]
    """,
    re.VERBOSE,
)
TAB_WIDTH = 4


def visible(text: str) -> str:
    """The text with its lines and tabs; any other control character is shown as such."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _CONTROLS.sub(_shown, text)


def visible_line(text: str) -> str:
    """The text as one line: line ends and tabs are shown too, so that it stays one."""
    return visible(text).replace("\n", "^J").replace("\t", " ")


def visible_output(data: bytes) -> str:
    """
    What a program wrote, as it would stand there: without colours and cursor moves.

    A line that was written over with carriage returns shows its last state.
    """
    text = _SEQUENCES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    return visible(text)


def _last_state(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "")


def _shown(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    if code < 0x20:
        return f"^{chr(code + 0x40)}"
    if code == 0x7F:
        return "^?"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"<U+{code:04X}>"
