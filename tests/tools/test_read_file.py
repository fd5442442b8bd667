"""read_file: texts of every kind, whole or by lines, bounded."""

from __future__ import annotations

import codecs
import threading
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.ports import Access, AccessMode, Location, ToolContext, ToolError
from term2_acp.files.ledger import Knowledge
from term2_acp.files.locks import LARGE_FILE
from term2_acp.tools.bounds import RESULT_LIMIT
from tests.tools.bench import TOOLS, Bench

DEADLINE_S = 30


def read(bench: Bench, **arguments: object) -> str:
    return bench.run("read_file", path="file", **arguments).text


class TestTheWholeFile:
    @pytest.mark.parametrize(
        ("data", "text"),
        [
            (b"one\ntwo", "one\ntwo"),
            (b"one\r\ntwo\rthree\n", "one\r\ntwo\rthree\n"),
            (codecs.BOM_UTF8 + b"const a=1;\n", "const a=1;\n"),
            (codecs.BOM_UTF16_LE + "é\n".encode("utf-16-le"), "é\n"),
            (b"caf\xe9\n", "café\n"),
            ("é ".encode() + b"\xe9", "é \ufffd"),
            ("a\u2028b\x85c\x0bd".encode(), "a\u2028b\x85c\x0bd"),
        ],
    )
    def test_it_is_shown_as_it_is(self, bench: Bench, data: bytes, text: str) -> None:
        """Without byte order mark, with its line endings, and fit to be sent."""
        bench.write("file", data)
        assert read(bench) == text

    def test_an_empty_file_is_said_to_be_empty(self, bench: Bench) -> None:
        """A model takes nothing at all for a fault."""
        bench.write("file", b"")
        assert read(bench) == "[file is empty]"

    def test_it_is_remembered_as_read(self, bench: Bench) -> None:
        """The session may then overwrite it."""
        path = bench.write("file", "x")
        read(bench)
        assert bench.ledger.compare(str(path), b"x") is Knowledge.CURRENT

    def test_a_failed_read_is_not_remembered(self, bench: Bench) -> None:
        """Neither a binary file nor a wrong range shows the content."""
        path = bench.write("file", "x")
        with pytest.raises(ToolError):
            read(bench, start_line=9)
        assert bench.ledger.compare(str(path), b"x") is Knowledge.UNSEEN

    @pytest.mark.parametrize("data", [b"a\0b", b"\x7fELF\x02\x01\x01\xff"])
    def test_a_binary_file_is_refused(self, bench: Bench, data: bytes) -> None:
        """The error says so."""
        bench.write("file", data)
        with pytest.raises(ToolError, match="cannot read file: it is binary"):
            read(bench)

    def test_a_folder_is_refused(self, bench: Bench) -> None:
        """The error says what it is."""
        (bench.root / "file").mkdir()
        with pytest.raises(ToolError, match="cannot read file: it is a folder"):
            read(bench)


class TestARangeOfLines:
    def test_both_ends_are_included(self, bench: Bench) -> None:
        """The total is told, so that the next range can be chosen."""
        bench.write("file", "one\r\ntwo\nthree\nfour")
        assert read(bench, start_line=2, end_line=3) == ("two\nthree\n[lines 2 to 3 of 4 of file]")

    def test_an_end_past_the_file_means_its_end(self, bench: Bench) -> None:
        """So does no end; no start means the first line."""
        bench.write("file", "one\ntwo\n")
        assert read(bench, start_line=2, end_line=99) == "two\n[lines 2 to 2 of 2 of file]"
        assert read(bench, start_line=2) == "two\n[lines 2 to 2 of 2 of file]"
        assert read(bench, end_line=1) == "one\n[lines 1 to 1 of 2 of file]"

    @pytest.mark.parametrize(
        ("content", "start", "end", "told"),
        [
            ("one\ntwo\n", 0, 1, "start_line 0 is not a line of file, which has 2 lines"),
            ("one\ntwo\n", -1, None, "start_line -1 is not a line of file, which has 2 lines"),
            ("one\ntwo\n", 3, None, "start_line 3 is not a line of file, which has 2 lines"),
            ("one\ntwo\n", 2, 1, "end_line 1 is before start_line 2; file has 2 lines"),
            ("one\ntwo\n", None, 0, "end_line 0 is before start_line 1; file has 2 lines"),
            ("", 1, 1, "start_line 1 is not a line of file, which has 0 lines"),
        ],
    )
    def test_a_range_that_makes_no_sense_fails_with_the_number_of_lines(
        self, bench: Bench, content: str, start: int | None, end: int | None, told: str
    ) -> None:
        """Below 1, past the end, or ending before it starts."""
        bench.write("file", content)
        with pytest.raises(ToolError, match=told):
            read(bench, start_line=start, end_line=end)

    @settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.text(alphabet="a\r\x0b\x0c\x1c\x85\u2028 ", max_size=4), min_size=1),
        st.data(),
    )
    def test_lines_end_at_line_feeds_only(
        self, bench: Bench, lines: list[str], data: st.DataObject
    ) -> None:
        """Other separators are characters of a line, whatever Python calls a line."""
        bench.write("file", "\n".join(lines) + "\n")
        number = data.draw(st.integers(1, len(lines)))
        text = read(bench, start_line=number, end_line=number)
        assert text == f"{lines[number - 1]}\n[lines {number} to {number} of {len(lines)} of file]"


class TestALongFile:
    def test_head_and_tail_are_shown_and_the_lines_between_are_named(self, bench: Bench) -> None:
        """The named range can be read with the next call, and nothing is missing."""
        lines = [f"line {number:06}" for number in range(1, 20_001)]
        bench.write("file", "\n".join(lines) + "\n")
        text = read(bench)
        assert len(text) < RESULT_LIMIT + 200
        head, _, rest = text.partition("[… ")
        note, _, tail = rest.partition(" left out …]\n")
        _, _, named = note.partition("lines ")
        begin, end = (int(part) for part in named.rstrip(",").split(" to "))
        assert head.split("\n")[:-1] == lines[: begin - 1]
        assert tail.split("\n")[:-1] == lines[end:]

    def test_one_long_line_is_cut_within(self, bench: Bench) -> None:
        """A file without line breaks is bounded as well."""
        bench.write("file", "x" * 5_000_000)
        text = read(bench)
        assert len(text) < RESULT_LIMIT + 200
        assert "characters, lines 1 to 1, left out" in text


class TestThePlan:
    def test_it_names_the_file_and_the_line(self, bench: Bench) -> None:
        """By its real path."""
        path = bench.write("src/a.py", "x")
        (bench.root / "link").symlink_to("src")
        plan = bench.plan("read_file", path="link/a.py", start_line=3, end_line=9)
        assert plan.title == "Read src/a.py, lines 3 to 9"
        assert plan.accesses == (Access(str(path), AccessMode.READ),)
        assert plan.locations == (Location(str(path), 3),)
        assert bench.plan("read_file", path="src/a.py").title == "Read src/a.py"

    @pytest.mark.parametrize("line", [-5, 0, 2**33, 10**4000])
    def test_a_line_that_cannot_be_one_is_not_followed(self, bench: Bench, line: int) -> None:
        """An editor is told of the file alone; the call itself fails."""
        path = bench.write("file", "x\n")
        plan = bench.plan("read_file", path="file", start_line=line)
        assert plan.locations == (Location(str(path), None),)
        with pytest.raises(ToolError, match="is not a line of file") as refused:
            read(bench, start_line=line)
        assert len(str(refused.value)) < 200

    def test_a_huge_end_is_the_end(self, bench: Bench) -> None:
        """The title stays short."""
        bench.write("file", "x\n")
        assert read(bench, end_line=10**4000) == "x\n[lines 1 to 1 of 1 of file]"
        with pytest.raises(ToolError, match="end_line an integer of 13288 bits is before"):
            read(bench, end_line=-(10**4000))


def test_large_files_are_not_in_memory_side_by_side(bench: Bench) -> None:
    """The second is read when the first is done, or never if its turn is cancelled."""
    bench.write("small", "s\n")
    first_is_read, may_end = threading.Event(), threading.Event()

    def keep(_path: str, text: str) -> str:
        first_is_read.set()
        assert may_end.wait(DEADLINE_S)
        return text[:2]

    def read_one(name: str, context: ToolContext) -> str:
        return TOOLS["read_file"].run(bench.parse("read_file", {"path": name}), context).text

    bench.write("one", "x\n" * (LARGE_FILE // 2))
    bench.write("two", "y\n" * (LARGE_FILE // 2))
    keeping = attrs.evolve(bench.context(), redact_file=keep)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(read_one, "one", keeping)
        assert first_is_read.wait(DEADLINE_S)
        cancelled = attrs.evolve(bench.context(), cancel=CancelToken())
        two = pool.submit(read_one, "two", cancelled)
        assert read_one("small", bench.context()) == "s\n"
        cancelled.cancel.cancel()
        with pytest.raises(Cancelled):
            two.result(DEADLINE_S)
        may_end.set()
        assert one.result(DEADLINE_S) == "x\n"
    assert read_one("two", bench.context()).startswith("y\ny\n")
