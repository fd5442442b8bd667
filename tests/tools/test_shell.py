"""shell: what is run, what the user sees of it and what the model is told."""

from __future__ import annotations

import pytest

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import ShellResult, TerminalContent, ToolError
from tests.tools.bench import Bench


class TestACommandThatRan:
    def test_its_output_and_exit_status_are_told(self, bench: Bench) -> None:
        """The user sees a terminal with the same bytes."""
        bench.shell.pieces = [b"one\n", b"tw", b"o"]
        bench.shell.ending = ShellResult(exit_code=0, duration_s=1.25)
        outcome = bench.run("shell", command="make test")
        (terminal,) = bench.terminals
        assert bench.shell.ran == [("make test", 120)]
        assert outcome.text == "one\ntwo\n[exit status 0 after 1.2 s]"
        assert not outcome.failed
        assert outcome.content == (TerminalContent(terminal.terminal_id),)
        assert terminal.command == "make test"
        assert bytes(terminal.shown) == b"one\ntwo"
        assert terminal.exits == [(0, None)]

    def test_another_status_than_0_is_a_failure_with_its_output(self, bench: Bench) -> None:
        """A hint of the sandbox is passed on."""
        bench.shell.pieces = [b"no network\n"]
        bench.shell.ending = ShellResult(exit_code=7, hint="The sandbox has no network.")
        outcome = bench.run("shell", command="curl x")
        assert outcome.failed
        assert outcome.text == (
            "no network\n[exit status 7 after 0.0 s]\n[The sandbox has no network.]"
        )
        assert bench.terminals[0].exits == [(7, None)]

    def test_a_signal_is_named(self, bench: Bench) -> None:
        """To the model and on the terminal."""
        bench.shell.ending = ShellResult(signal="SIGSEGV", duration_s=2)
        outcome = bench.run("shell", command="x")
        assert outcome.failed
        assert outcome.text == "[killed by SIGSEGV after 2.0 s]"
        assert bench.terminals[0].exits == [(None, "SIGSEGV")]

    @pytest.mark.parametrize("signal", ["SIGKILL", None])
    def test_a_time_out_is_a_failure_with_what_was_printed(
        self, bench: Bench, signal: str | None
    ) -> None:
        """The terminal shows that it was killed."""
        bench.shell.pieces = [b"started\n"]
        bench.shell.ending = ShellResult(signal=signal, timed_out=True)
        outcome = bench.run("shell", command="sleep 9", timeout_s=1)
        assert bench.shell.ran == [("sleep 9", 1)]
        assert outcome.failed
        assert outcome.text == (
            "started\n[timed out after 1 s; the command and all it started were killed]"
        )
        assert bench.terminals[0].exits == [(None, "SIGKILL")]

    def test_much_output_keeps_head_and_tail(self, bench: Bench) -> None:
        """The model is told how much is missing; the terminal got all of it."""
        bench.shell.pieces = [b"first\n", *[b"x" * 1000] * 1000, b"\nlast"]
        outcome = bench.run("shell", command="yes")
        assert outcome.text.startswith("first\nxxx")
        assert outcome.text.endswith("xxx\nlast\n[exit status 0 after 0.0 s]")
        assert f"[… {1_000_011 - (64 << 10)} bytes left out …]" in outcome.text
        assert len(bench.terminals[0].shown) == 1_000_011

    def test_output_that_is_no_text_can_be_sent(self, bench: Bench) -> None:
        """A NUL stays, what is no UTF-8 becomes U+FFFD, split characters are whole again."""
        bench.shell.pieces = [b"a\0\xff", "é".encode()[:1], "é".encode()[1:]]
        assert bench.run("shell", command="x").text.startswith("a\0\ufffdé\n")

    def test_unsandboxed_is_the_same_as_default(self, bench: Bench) -> None:
        """Nothing is said about it, and nothing else is asked of the shell."""
        plain = bench.run("shell", command="x")
        asked = bench.run("shell", command="x", sandbox="unsandboxed")
        assert bench.plan("shell", command="x", sandbox="unsandboxed") == bench.plan(
            "shell", command="x"
        )
        assert asked.text == plain.text
        assert bench.shell.ran[0] == bench.shell.ran[1]


class TestACommandThatDidNotRun:
    def test_a_sandbox_that_is_not_there_is_a_failed_call_with_the_reason(
        self, bench: Bench
    ) -> None:
        """It is not taken for a failure of the command."""
        bench.shell.ending = ShellResult(sandbox_error="bwrap is not installed.")
        with pytest.raises(ToolError, match="did not run: bwrap is not installed"):
            bench.run("shell", command="x")
        assert bench.terminals[0].exits == [(None, None)]

    def test_a_cancel_ends_the_terminal_and_the_call(self, bench: Bench) -> None:
        """Nothing looks as if the command still ran."""
        bench.shell.pieces = [b"part"]
        bench.shell.ending = Cancelled()
        with pytest.raises(Cancelled):
            bench.run("shell", command="x")
        assert bench.terminals[0].exits == [(None, "SIGKILL")]
        assert bytes(bench.terminals[0].shown) == b"part"

    @pytest.mark.parametrize(
        ("command", "told"), [("", "empty"), (" \n", "empty"), ("a\0b", "NUL")]
    )
    def test_what_is_no_command_fails_before_anybody_is_asked(
        self, bench: Bench, command: str, told: str
    ) -> None:
        """No terminal is opened for it."""
        with pytest.raises(ToolError, match=told):
            bench.run("shell", command=command)
        assert bench.terminals == []


def test_the_plan_runs_a_program(bench: Bench) -> None:
    """The title has all of the command; it is made short when it has no credentials."""
    plan = bench.plan("shell", command="cd src &&\n  make test")
    assert plan.title == "Run `cd src &&\n  make test`"
    assert plan.executes
    assert plan.accesses == ()
