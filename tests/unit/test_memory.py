"""What is done for the memory of the process, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

_CYCLE = """\
import gc, weakref
from term2_acp import memory
class Node:
    pass
gc.disable()
memory.keep_what_is_loaded()
assert gc.get_freeze_count() > 0
node = Node()
node.itself, gone = node, weakref.ref(node)
del node
assert gone() is not None
memory.give_back()
assert gone() is None
"""
_NO_CTYPES = """\
import sys
sys.modules["ctypes"] = None
from term2_acp import memory
memory.bound_heaps()
memory.give_back()
"""


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )


def test_what_only_refers_to_itself_is_freed_when_memory_is_given_back():
    """Cycles go, and what was loaded before is not looked at again."""
    done = run(_CYCLE)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_python_without_ctypes_does_without():
    """Some Pythons are built without libffi; the server needs nothing of it."""
    done = run(_NO_CTYPES)
    assert (done.returncode, done.stderr) == (0, "")
