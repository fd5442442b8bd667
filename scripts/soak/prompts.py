"""Random turns: what the model is to do in them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from soak.model import FAULTS, Script, Step

Call = tuple[str, str]


class Prompts:
    """
    Makes scripts; the same random numbers make the same ones.

    `marker` stands on the command line of everything that is started.
    """

    def __init__(self, rng: random.Random, marker: str) -> None:
        self._rng = rng
        self._marker = marker
        self._made = 0

    def script(self) -> Script:
        """The next turn."""
        kinds: tuple[tuple[int, Callable[[], list[Step]]], ...] = (
            (4, self._short),
            (2, self._long),
            (3, self._paced),
            (4, self._tools),
            (2, self._storm),
            (2, self._faulty),
            (1, self._nonsense),
        )
        make = self._rng.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
        self._made += 1
        return Script(f"{self._marker}-{self._rng.getrandbits(64):x}-{self._made}", tuple(make()))

    def _short(self) -> list[Step]:
        return [Step(chunks=self._rng.randint(0, 5), thinks=self._rng.random() < 0.3)]

    def _long(self) -> list[Step]:
        return [Step(chunks=self._rng.randint(200, 4000), size=self._rng.choice((4, 40, 400)))]

    def _paced(self) -> list[Step]:
        return [Step(chunks=self._rng.randint(5, 60), pace_ms=self._rng.randint(1, 20))]

    def _tools(self) -> list[Step]:
        steps = [
            Step(chunks=self._rng.randint(0, 3), calls=(self._call(),))
            for _ in range(self._rng.randint(1, 4))
        ]
        return [*steps, Step(chunks=2)]

    def _storm(self) -> list[Step]:
        calls = tuple(self._call() for _ in range(self._rng.randint(2, 12)))
        return [Step(calls=calls), Step(chunks=2)]

    def _faulty(self) -> list[Step]:
        fault = self._rng.choice(FAULTS)
        step = Step(
            chunks=self._rng.choice((0, 1, 20)), fault=fault, fails=self._rng.choice((1, 1, 2, 9))
        )
        return [step] if self._rng.random() < 0.5 else [Step(calls=(self._read(),)), step]

    def _nonsense(self) -> list[Step]:
        calls = (("no_such_tool", "{}"), ("read_file", "{"), ("shell", '{"command": 7}'))
        return [Step(calls=(self._rng.choice(calls),)), Step(chunks=1)]

    def _call(self) -> Call:
        makers = (
            self._read, self._read, self._glob, self._grep, self._create, self._replace,
            self._shell, self._shell, self._code, self._plan, self._outside,
        )  # fmt: skip
        return self._rng.choice(makers)()

    def _read(self) -> Call:
        return _call("read_file", path=self._file())

    def _glob(self) -> Call:
        return _call("glob", pattern="**/*.txt")

    def _grep(self) -> Call:
        return _call("grep", pattern="line [0-9]")

    def _create(self) -> Call:
        return _call("create_file", path=f"new-{self._rng.getrandbits(40):x}.txt", content="a\nb\n")

    def _replace(self) -> Call:
        change = {"search_content": "line 1", "replace_content": "line 1"}
        return _call("search_replace", path=self._file(), replacements=[change])

    def _shell(self) -> Call:
        command = self._rng.choice(
            ("echo hello", "sleep 0.2; echo late", "seq 20000", "sleep 3", "exit 3")
        )
        return _call("shell", command=f"{command} # {self._marker}")

    def _code(self) -> Call:
        code = self._rng.choice(
            ("print(1 + 1)", "print(tools.read_file(path='a.txt'))", "import time; time.sleep(3)")
        )
        return _call("run_code", code=f"{code}  # {self._marker}")

    def _plan(self) -> Call:
        entry = {"content": "Boil water", "priority": "high", "status": "pending"}
        return _call("update_plan", entries=[entry])

    def _outside(self) -> Call:
        return _call("read_file", path="/etc/hostname")

    def _file(self) -> str:
        return self._rng.choice(("a.txt", "b.txt", "absent.txt"))


def _call(tool: str, /, **arguments: Any) -> Call:
    return tool, json.dumps(arguments)
