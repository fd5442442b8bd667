"""
`term2 acp` with cProfile on one of its threads; the profile goes to a file at the end.

The arguments are the file, the beginning of the thread's name, and then those of `acp`.
Only one thread is profiled at a time, since newer versions of Python allow no more.
"""

from __future__ import annotations

import cProfile
import sys
import threading

from term2_acp import serve, stdio


def main(path: str, thread_name: str, flags: list[str]) -> int:
    """Serve; the exit status."""
    profiler = cProfile.Profile()
    taken = threading.Lock()
    run = threading.Thread.run

    def profiled(thread: threading.Thread) -> None:
        if thread.name.startswith(thread_name) and taken.acquire(blocking=False):
            profiler.enable()
            try:
                run(thread)
            finally:
                profiler.disable()
                profiler.dump_stats(path)
                taken.release()
        else:
            run(thread)

    threading.Thread.run = profiled  # type: ignore[method-assign]
    stdio.make_sure_open()
    return serve.run(dict(zip(flags[::2], flags[1::2], strict=True)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
