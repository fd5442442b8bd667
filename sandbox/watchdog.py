"""
A process that outlives a killed server just long enough to kill what that had started.

bwrap ties itself to the server only after it has started its first child, and that one to
itself still later. Killed in between it leaves a child that waits for ever; so every group
of processes is reported here before it can come to that. Where there are no process
namespaces (macOS) it is the only tie.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading

# Bash 3.2 will do. Groups are reported as `+ N`, and `- N` when they are gone.
_SCRIPT = """
trap '' HUP INT TERM
while read -r sign group; do
  if [ "$sign" = + ]; then groups[group]=1; else unset "groups[group]"; fi
done
sweep=$1
descendants() {
  ps -A -o pid= -o ppid= -o pgid= | awk -v group="$1" '
    { parent[$1] = $2; wanted[$1] = $1 == group || $3 == group }
    END {
      do {
        grown = 0
        for (pid in parent)
          if (!wanted[pid] && wanted[parent[pid]]) grown = wanted[pid] = 1
      } while (grown)
      for (pid in wanted) if (wanted[pid]) print pid
    }'
}
for group in "${!groups[@]}"; do
  found=
  [ "$sweep" ] && found=$(descendants "$group")
  kill -KILL -- "-$group"
  [ "$found" ] && kill -KILL $found
done
"""
_ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}


class Watchdog:
    """
    Kills groups of processes when this process dies; started when it is first needed.

    May be used from any thread; ended by `close`.

    Args:
        sweeps: also kill the descendants that have left their group, where nothing else can.
    """

    def __init__(self, *, sweeps: bool = False) -> None:
        self._sweeps = sweeps
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._groups: set[int] = set()

    @property
    def pid(self) -> int | None:
        """Its process number while there is one."""
        process = self._process
        return None if process is None else process.pid

    def guard(self, group: int) -> None:
        """
        Kill `group` should this process die, from now on.

        Raises:
            OSError: there can be no watchdog.
        """
        with self._lock:
            self._groups.add(group)
            if not self._report(f"+ {group}\n"):
                self._end()
                self._start()

    def release(self, group: int) -> None:
        """Never kill `group`; to be called before its number can be another's."""
        with self._lock:
            self._groups.discard(group)
            # One that cannot be told any more must not kill by old numbers.
            if self._process is not None and not self._report(f"- {group}\n"):
                self._end()

    def close(self) -> None:
        """End the watchdog; nothing that it guards may be running."""
        with self._lock:
            self._groups.clear()
            self._end()

    def _report(self, line: str) -> bool:
        if self._pipe is None:
            return False
        with contextlib.suppress(OSError):
            return os.write(self._pipe, line.encode("ascii")) == len(line)
        return False

    def _start(self) -> None:
        reader, self._pipe = os.pipe()
        try:
            # More than the pipe holds is never to be read while it can still read.
            os.set_blocking(self._pipe, False)
            self._process = subprocess.Popen(
                ["/bin/bash", "-c", _SCRIPT, "sandbox-watchdog", "sweep" if self._sweeps else ""],
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        except OSError:
            self._end()
            raise
        finally:
            os.close(reader)
        for group in self._groups:
            self._report(f"+ {group}\n")

    def _end(self) -> None:
        """Without what it would do at the end of the pipe."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
