"""Comparing the kernel's table with the mounts that were asked for."""

from __future__ import annotations

import pytest

from sandbox.mountinfo import MountTable, mismatch
from sandbox.mounts import Bind, Tmpfs

_HOST = b"""\
27 1 254:0 / / rw - ext4 /dev/vda rw
28 27 0:6 / /dev rw - devtmpfs devtmpfs rw
29 27 254:3 /@home /home rw - btrfs /dev/vdb rw
30 29 254:4 / /home/ada/my\\040disk rw - ext4 /dev/vdc rw
"""
_WANTED = (
    Tmpfs("/run"),
    Bind("/home/ada/ws", "/home/ada/ws", writable=True),
    Bind("/home/ada/ws/.git", "/home/ada/ws/.git"),
    Bind("/dev/null", "/etc/shadow"),
    Tmpfs("/srv/secret", sealed=True),
    Bind("/home/ada/my disk/x", "/home/ada/my disk/x", writable=True),
)
_INSIDE = b"""\
60 59 254:0 / / ro - ext4 /dev/vda rw
61 60 254:3 /@home /home ro - btrfs /dev/vdb rw
62 60 0:41 / /run rw,nosuid - tmpfs tmpfs rw
63 61 254:3 /@home/ada/ws /home/ada/ws rw - btrfs /dev/vdb rw
64 63 254:3 /@home/ada/ws/.git /home/ada/ws/.git ro,nosuid - btrfs /dev/vdb rw
65 60 0:6 /null /etc/shadow ro - devtmpfs devtmpfs rw
66 60 0:42 / /srv/secret ro - tmpfs tmpfs rw
67 61 254:4 /x /home/ada/my\\040disk/x rw - ext4 /dev/vdc rw
"""


def judge(inside: bytes) -> str | None:
    """The first mount that is wrong."""
    return mismatch(_WANTED, MountTable(inside), MountTable(_HOST))


def test_mounts_as_wanted_are_accepted() -> None:
    """Subvolumes and names with spaces included."""
    assert judge(_INSIDE) is None


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        pytest.param(b"64 63", b"#", "/home/ada/ws/.git", id="mount gone"),
        pytest.param(b".git ro", b".git rw", "/home/ada/ws/.git", id="writable"),
        pytest.param(b"/@home/ada/ws/.git /", b"/@home/eve /", "/home/ada/ws/.git", id="source"),
        pytest.param(b"254:3 /@home/ada/ws /", b"254:0 /etc /", "/home/ada/ws", id="other disk"),
        pytest.param(b" /home/ada/ws rw", b" /etc rw", "/home/ada/ws", id="other place"),
        pytest.param(b"/null", b"/zero", "/etc/shadow", id="no mask"),
        pytest.param(b"/srv/secret ro", b"/srv/secret rw", "/srv/secret", id="not sealed"),
        pytest.param(b"nosuid - tmpfs", b"nosuid - ext4", "/run", id="not empty"),
        pytest.param(b"/@home/ada/ws /", b"/@home/ada/ws//deleted /", "/home/ada/ws", id="deleted"),
    ],
)
def test_each_deviation_is_found(old: bytes, new: bytes, wrong: str) -> None:
    """The destination that is not as wanted is named."""
    assert old in _INSIDE
    if new == b"#":
        lines = [line for line in _INSIDE.split(b"\n") if not line.startswith(old)]
        assert wrong == judge(b"\n".join(lines))
    else:
        assert wrong == judge(_INSIDE.replace(old, new))


def test_last_mount_on_a_place_counts() -> None:
    """One that was mounted over another hides it."""
    over = _INSIDE + b"70 63 254:0 /evil /home/ada/ws rw - ext4 /dev/vda rw\n"
    assert "/home/ada/ws" == judge(over)


@pytest.mark.parametrize("text", [b"junk", b"a b c d e f g - h i", b"1 2 3 4 5 6 7 8 9 10"])
def test_text_that_is_no_table_is_refused(text: bytes) -> None:
    """A fake bwrap's output, for instance."""
    with pytest.raises(ValueError, match=r"."):
        MountTable(text)
