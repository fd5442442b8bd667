"""run_code: Python in the real sandbox, and the pipe through which it calls tools."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.ports import TerminalContent, ToolError, ToolOutcome
from term2_acp.errors import StoreError
from term2_acp.shell import SandboxedShell
from term2_acp.tools import code_channel, run_code
from tests.tools.bench import Bench, RecordingTerminal

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
DEADLINE_S = 30.0


@pytest.fixture(name="bench")
def _bench(tmp_path: Path) -> Iterator[Bench]:
    """A workspace with a sandbox; nothing of ours runs or is open when a test is over."""
    bench = Bench.in_folder(tmp_path)
    descriptors = open_descriptors()
    state = str(tmp_path / "state")
    shell = SandboxedShell(str(bench.root), session_id="s", state_dir=state, hidden=[])
    bench.sandbox = shell
    yield bench
    shell.close()
    assert [t.name for t in threading.enumerate() if t.name == "term2-code"] == []
    assert open_descriptors() == descriptors


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def output(outcome: ToolOutcome) -> str:
    """What was printed, without the line that says how the code ended."""
    return outcome.text.rpartition("[")[0]


class TestTheCode:
    def test_its_output_and_ending_are_told(self, bench: Bench) -> None:
        """Both streams in their order, and the same in a terminal."""
        code = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three', end='')"
        outcome = bench.run("run_code", code=code)
        assert outcome.text.startswith("one\ntwo\nthree\n[exit status 0 after ")
        assert not outcome.failed
        (terminal,) = bench.terminals
        assert bytes(terminal.shown) == b"one\ntwo\nthree"
        assert terminal.exits == [(0, None)]
        assert outcome.content == (TerminalContent(terminal.terminal_id),)

    @pytest.mark.parametrize(
        ("code", "told", "status"),
        [
            (
                "print('x')\n1/0",
                'x\nTraceback (most recent call last):\n  File "<code>", line 2',
                1,
            ),
            ("def f(:", "SyntaxError: invalid syntax\n", 1),
            ("import sys\nsys.exit('bye')", "bye\n", 1),
            ("exit(3)", "", 3),
            ("raise KeyboardInterrupt", "KeyboardInterrupt\n", 1),
            ("import os\nos.kill(os.getpid(), 9)", "", 137),
        ],
    )
    def test_code_that_fails_is_a_failed_call(
        self, bench: Bench, code: str, told: str, status: int
    ) -> None:
        """With its output and the traceback, in which only the code's own lines are."""
        outcome = bench.run("run_code", code=code)
        assert outcome.failed
        assert told in output(outcome)
        assert f"[exit status {status} " in outcome.text
        assert "<string>" not in outcome.text

    def test_a_traceback_shows_the_lines_also_of_what_led_to_it(self, bench: Bench) -> None:
        """Nothing of how calls are made is in it."""
        bench.write("f", "x")
        code = (
            "try:\n    tools.read_file(path='none')\n"
            "except ToolFailed as error:\n    raise RuntimeError('no file') from error\n"
        )
        assert output(bench.run("run_code", code=code)) == (
            "Traceback (most recent call last):\n"
            '  File "<code>", line 2, in <module>\n'
            "    tools.read_file(path='none')\n"
            "ToolFailed: cannot read none: there is no such file or folder.\n"
            "\nThe above exception was the direct cause of the following exception:\n\n"
            "Traceback (most recent call last):\n"
            '  File "<code>", line 4, in <module>\n'
            "    raise RuntimeError('no file') from error\n"
            "RuntimeError: no file\n"
        )

    def test_it_runs_as_a_program_of_its_own_in_the_workspace(self, bench: Bench) -> None:
        """Nothing of the server is in reach: not its modules, its environment or descriptors."""
        bench.write("mine.py", "value = 7\n")
        bench.write("json.py", "raise AssertionError('the library comes first')\n")
        code = (
            "import importlib.util, json, os, sys, mine\n"
            "print(mine.value, __name__, sys.argv, os.getcwd(), input)\n"
            "print(sorted(name for name in dir() if not name.startswith('__')))\n"
            "print(importlib.util.find_spec('term2_acp'), importlib.util.find_spec('attrs'))\n"
            "print(len(os.listdir('/proc/self/fd')))\n"
        )
        assert output(bench.run("run_code", code=code)).splitlines() == [
            f"7 __main__ ['<code>'] {bench.root} <built-in function input>",
            "['ToolFailed', 'importlib', 'json', 'mine', 'os', 'sys', 'tools']",
            "None None",
            "5",
        ]

    def test_much_output_is_bounded(self, bench: Bench) -> None:
        """50 MB: beginning and end are told."""
        code = "print('first')\nfor _ in range(50):\n    print('x' * 10**6)\nprint('last')"
        outcome = bench.run("run_code", code=code)
        assert outcome.text.startswith("first\nxxx")
        assert "x\nlast\n[exit status 0" in outcome.text
        assert len(outcome.text) < 70_000

    @pytest.mark.parametrize(
        ("code", "told"),
        [(" \n", "empty"), ("a\0", "NUL"), ("#" * (run_code.LARGEST_CODE + 1), "longer than")],
    )
    def test_what_is_no_code_fails_before_anybody_is_asked(
        self, bench: Bench, code: str, told: str
    ) -> None:
        """No terminal is opened for it."""
        with pytest.raises(ToolError, match=told):
            bench.run("run_code", code=code)
        assert bench.terminals == []

    def test_the_plan_asks_for_execution(self, bench: Bench) -> None:
        """Always, whatever the code is; the title has all of it."""
        plan = bench.plan("run_code", code="\nimport os\nprint(1)")
        assert (plan.title, plan.executes) == ("Run Python: import os\nprint(1)", True)
        assert plan.accesses == ()

    def test_without_a_sandbox_nothing_runs(self, bench: Bench, tmp_path: Path) -> None:
        """The reason is told."""
        bench.sandbox = SandboxedShell(
            str(bench.root), session_id="../bad", state_dir=str(tmp_path / "state"), hidden=[]
        )
        with pytest.raises(ToolError, match="The code did not run: session '../bad' must be"):
            bench.run("run_code", code="open('proof', 'w')")
        assert bench.names() == []


class TestItsCalls:
    def test_a_call_returns_the_tools_text(self, bench: Bench) -> None:
        """Parameters by name, of any JSON type, in any Unicode, with results of any size."""
        bench.write("f", "é€\n" * 10_000)
        code = (
            "text = tools.read_file(path='f', start_line=2)\nprint(len(text) > 20_000)\n"
            "print(tools.create_file(path='n\\u00fc', content='x\\n' * 500_000, overwrite=False))\n"
            "print(tools.apply_patch(operations=[dict(type='delete_file', path='f')]))\n"
        )
        printed = output(bench.run("run_code", code=code))
        assert printed == "True\nCreated n\u00fc.\nThe patch is applied: deleted f.\n"
        assert [name for name, _ in bench.nested] == ["read_file", "create_file", "apply_patch"]
        assert (bench.root / "n\u00fc").stat().st_size == 10**6

    def test_a_failed_call_raises(self, bench: Bench) -> None:
        """The exception's text is what the tool said; the code may go on."""
        code = (
            "try:\n    tools.read_file(path='none')\nexcept ToolFailed as e:\n    print('no:', e)\n"
            "try:\n    tools.run_code(code='1')\nexcept ToolFailed as e:\n    print('no:', e)\n"
            "try:\n    tools.read_file('f')\nexcept TypeError as e:\n    print('no:', e)\n"
        )
        outcome = bench.run("run_code", code=code)
        assert output(outcome).splitlines() == [
            "no: cannot read none: there is no such file or folder.",
            "no: run_code cannot be called by code.",
            "no: tools.read_file takes its parameters by name only",
        ]
        assert not outcome.failed
        assert [name for name, _ in bench.nested] == ["read_file"]

    def test_threads_take_turns_and_forks_have_none(self, bench: Bench) -> None:
        """Each thread gets its own answers; a forked process is told that it cannot call."""
        for number in range(8):
            bench.write(f"f{number}", f"<{number}>")
        code = (
            "import os\nfrom concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(8) as pool:\n"
            "    read = lambda n: f'<{n % 8}>' in tools.read_file(path=f'f{n % 8}')\n"
            "    print(all(pool.map(read, range(64))))\n"
            "if os.fork() == 0:\n"
            "    try:\n        tools.read_file(path='f1')\n"
            "    except ToolFailed as e:\n        print(e)\n"
            "    os._exit(0)\n"
            "os.wait()\nprint('<1>' in tools.read_file(path='f1'))\n"
        )
        assert output(bench.run("run_code", code=code)).splitlines() == [
            "True",
            "tools can be called only by the code itself while it runs",
            "True",
        ]

    def test_the_time_stands_still_meanwhile(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A call may take longer than the code may; the code's own time goes on after it."""
        monkeypatch.setattr(run_code, "TIME_LIMIT_S", 2)
        release = threading.Event()

        def slow(*_call: object) -> ToolOutcome:
            release.wait(3)
            return ToolOutcome("late")

        outcome = run_with(bench, "print(tools.slow())\nimport time\ntime.sleep(600)", slow)
        assert outcome.text == (
            "late\n[timed out after 2 s; the code and all it started were killed]"
        )
        assert outcome.failed


def run_with(
    bench: Bench, code: str, call: Callable[[str, str, CancelToken], ToolOutcome]
) -> ToolOutcome:
    """Run code whose calls are answered by a function."""

    class Answering(Bench):
        def run_nested(self, tool: str, arguments: str, cancel: CancelToken) -> ToolOutcome:
            return call(tool, arguments, cancel)

    answering = Answering(bench.root, bench.outside, cancel=bench.cancel, sandbox=bench.sandbox)
    answering.terminals = bench.terminals
    return answering.run("run_code", code=code)


class TestTheEnd:
    def test_a_cancel_ends_code_that_never_does(self, bench: Bench) -> None:
        """Also one that catches everything; the terminal does not look as if it ran on."""
        code = (
            "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('on')\n"
            "while True:\n    try:\n        time.sleep(600)\n"
            "    except BaseException:\n        pass"
        )
        cancelled: list[float] = []

        class Cancelling(RecordingTerminal):
            def output(self, data: bytes) -> bytes:
                cancelled.append(time.monotonic())
                bench.cancel.cancel()
                return data

        terminal = Cancelling("python")
        context = attrs.evolve(bench.context(), open_terminal=lambda _command: terminal)
        tool = run_code.RunCode()
        with pytest.raises(Cancelled):
            tool.run(run_code.RunCodeParams(code), context)
        assert time.monotonic() - cancelled[0] < DEADLINE_S
        assert terminal.exits == [(None, "SIGKILL")]

    def test_a_cancel_ends_a_call_that_is_under_way(self, bench: Bench) -> None:
        """The call's own token is set, and the code does not go on."""
        ended: list[str] = []

        def wait(_tool: str, _arguments: str, cancel: CancelToken) -> ToolOutcome:
            bench.cancel.cancel()
            assert cancel.wait(DEADLINE_S)
            ended.append("call")
            raise Cancelled

        with pytest.raises(Cancelled):
            run_with(bench, "tools.wait()\nopen('proof', 'w')", wait)
        assert ended == ["call"]
        assert bench.names() == []

    def test_the_end_of_the_code_ends_a_call_that_is_under_way(self, bench: Bench) -> None:
        """A thread of the code made it; nobody waits for its answer any more."""
        ended: list[str] = []

        def wait(_tool: str, _arguments: str, cancel: CancelToken) -> ToolOutcome:
            (bench.root / "asked").touch()
            assert cancel.wait(DEADLINE_S)
            ended.append("call")
            raise Cancelled

        code = (
            "import os, threading, time\n"
            "threading.Thread(target=lambda: tools.wait(), daemon=True).start()\n"
            "while not os.path.exists('asked'):\n    time.sleep(0.01)\n"
            "print('done')"
        )
        outcome = run_with(bench, code, wait)
        assert (output(outcome), outcome.failed) == ("done\n", False)
        assert ended == ["call"]

    def test_a_call_that_breaks_the_turn_ends_the_code(self, bench: Bench) -> None:
        """What it raised is raised by the tool, not told to the code."""

        def fail(*_call: object) -> ToolOutcome:
            raise StoreError("the disk is full")

        with pytest.raises(StoreError, match="disk is full"):
            run_with(
                bench, "try:\n    tools.x()\nfinally:\n    import time\n    time.sleep(600)", fail
            )
        assert bench.terminals[0].exits == [(None, "SIGKILL")]


# How the code inside finds its end of the pipe when it does not want to be served.
FIND = (
    "import os, json, stat\n"
    "links = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
    "links = [link for link in links if os.path.exists(link)]\n"
    "fd = next(int(link[14:]) for link in links if stat.S_ISSOCK(os.stat(link).st_mode))\n"
)


class TestHostileCode:
    def test_code_that_closes_the_pipe_runs_on(self, bench: Bench) -> None:
        """Only its calls fail."""
        code = FIND + (
            "os.close(fd)\n"
            "try:\n    tools.read_file(path='x')\nexcept ToolFailed as e:\n    print(e)\n"
        )
        assert output(bench.run("run_code", code=code)) == (
            "the agent takes no more calls from this code\n"
        )

    @pytest.mark.parametrize(
        "line",
        [
            "b'no json'",
            "b'\\xff\\xfe'",
            "b''",
            "b'[1]'",
            "b'null'",
            "b'[' * 100_000",
            'b\'{"tool": "x"}\'',
            'b\'{"tool": 1, "arguments": {}}\'',
            'b\'{"tool": "x", "arguments": []}\'',
            'b\'{"tool": "../x", "arguments": {}}\'',
            "b'{\"tool\": \"' + b'x' * 65 + b'\", \"arguments\": {}}'",
            'b\'{"tool": "x", "arguments": {}, "id": 1}\'',
            f"b'x' * {code_channel.LARGEST_REQUEST + 2}",
        ],
    )
    def test_a_malformed_request_is_answered_and_the_next_works(
        self, bench: Bench, line: str
    ) -> None:
        """No tool is run for it."""
        bench.write("f", "text")
        code = FIND + (
            f"data = {line} + b'\\n'\n"
            "while data:\n    data = data[os.write(fd, data):]\n"
            "print(json.loads(os.read(fd, 10000)))\nprint(tools.read_file(path='f'))\n"
        )
        printed = output(bench.run("run_code", code=code))
        assert printed.startswith("{'failed': True, 'text': 'no call: a request is one line of")
        assert printed.endswith("text\n")
        assert len(bench.nested) == 1

    def test_code_that_floods_without_reading_waits_for_itself(self, bench: Bench) -> None:
        """The server holds next to nothing, and the end of the code ends it."""
        bench.write("f", "x" * 20_000)
        code = FIND + (
            "os.set_blocking(fd, False)\n"
            'request = json.dumps({"tool": "read_file", "arguments": {"path": "f"}}) + "\\n"\n'
            "sent = 0\n"
            "try:\n    while True:\n        sent += os.write(fd, request.encode() * 100)\n"
            "except BlockingIOError:\n    print(sent < 10**7)\n"
        )
        assert output(bench.run("run_code", code=code)) == "True\n"
        assert len(bench.nested) < 200

    def test_malformed_requests_without_end_end_the_service(self, bench: Bench) -> None:
        """The code runs on, without calls."""
        code = FIND + (
            "try:\n    while True:\n        os.write(fd, b'x\\n')\n"
            "        if not os.read(fd, 9999):\n            break\n"
            "except OSError:\n    pass\nprint('over')\n"
        )
        assert output(bench.run("run_code", code=code)) == "over\n"

    def test_calls_are_counted(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is beyond the bound fails, each time, and runs nothing."""
        monkeypatch.setattr(code_channel, "MOST_CALLS", 3)
        bench.write("f", "text")
        code = (
            "for _ in range(5):\n    try:\n        print(tools.read_file(path='f').strip())\n"
            "    except ToolFailed as e:\n        print(e)\n"
        )
        printed = output(bench.run("run_code", code=code)).splitlines()
        assert printed[:3] == ["text"] * 3
        assert printed[3:] == ["this code has made 3 calls, which is the most that it may make"] * 2
        assert len(bench.nested) == 3
