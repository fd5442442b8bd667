"""
The memory of the process: what was used once goes back to the system.

Two things keep it otherwise. glibc makes an arena for nearly every thread and keeps what is
free at the end of each, more of it with every large block: after some minutes of turns, half
of the resident memory is free blocks. And the vendors' clients are cycles that hold
whole requests until a collection of all generations, which what was imported makes rare and
slow. Where the C library is not glibc, only the second is dealt with.
"""

from __future__ import annotations

import functools
import gc
import importlib
from typing import Any

# Of malloc.h; they are part of the ABI.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_ARENAS = 2
_LARGE_BYTES = 256 * 1024


@functools.cache
def _glibc() -> Any:
    """The C library if it is glibc, else None; the first call loads `ctypes`, 2 ms."""
    try:
        # Not there in a Python that was built without libffi.
        library = importlib.import_module("ctypes").CDLL(None)
        _ = library.gnu_get_libc_version, library.mallopt, library.malloc_trim
    except (ImportError, OSError, AttributeError):
        return None
    return library


def bound_heaps() -> None:
    """Keep few arenas, and large blocks outside of them; for the whole process."""
    library = _glibc()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, _ARENAS)
        # Set by hand, they no longer grow with the largest block that was freed.
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


def keep_what_is_loaded() -> None:
    """Leave what is there now out of later collections; once the code is loaded."""
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Free what is not reached any more and return free pages; milliseconds, from any thread."""
    gc.collect()
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)
