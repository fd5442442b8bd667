"""`term2 sessions`: list, show, export, delete and prune what is stored."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, NoReturn

from term2_acp.directories import canonical
from term2_acp.errors import AcpError, SessionInUseError
from term2_acp.eventlog import StopReason, TurnEnded, UserMessage
from term2_acp.folders import Folders
from term2_acp.store import SessionRecord
from term2_acp.titles import title_of
from term2_acp.upkeep.archive import Archive
from term2_acp.upkeep.export import describe, json_lines, markdown
from term2_acp.upkeep.tables import bytes_of, printable, table
from term2_acp.upkeep.times import age, local

_LIMIT = 50
_COUNT = re.compile("[1-9][0-9]{0,8}")
_FORMATS = {"jsonl": json_lines, "markdown": markdown}


class _Parser(argparse.ArgumentParser):
    """Refuses as the rest of the program does: one line, exit status 1."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"term2: sessions: {message}; try {self.prog} --help\n")
        raise SystemExit(1)


def run(arguments: Sequence[str]) -> int:
    """Run `term2 sessions`; returns its exit status: 0, or 1 if anything was refused."""
    # A reader that has enough ends us, as it ends cat; an interrupt is no success.
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    directory = Folders.of_user().state
    if not Archive.exists(directory):
        return _nothing(options)
    try:
        archive = Archive(directory)
        try:
            status: int = options.act(archive, options)
            return status
        finally:
            archive.close()
    except AcpError as error:
        return _refused(error.message)
    except OSError as error:
        return _refused(f"{error.filename or 'the output'}: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="term2 sessions", description="Look after the stored sessions.")
    parsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, act: Callable[[Archive, argparse.Namespace], int], text: str) -> _Parser:
        one = parsers.add_parser(name, help=text, description=f"{text.capitalize()}.")
        one.set_defaults(act=act, name=name)
        assert isinstance(one, _Parser)  # noqa: S101 (for the type checker)
        return one

    short = "its id, or as much of its beginning as is unique"
    one = add("list", _list, "list the sessions that had a prompt, newest activity first")
    one.add_argument("--cwd", metavar="DIR", help="only those of a folder")
    one.add_argument("--limit", type=_count, default=_LIMIT, metavar="N", help=f"({_LIMIT})")
    one.add_argument("--all", action="store_true", help="however many there are")
    one.add_argument("--json", action="store_true", help="a JSON array")
    one = add("show", _show, "show what is known of a session, and its prompts")
    one.add_argument("id", metavar="ID", help=short)
    one.add_argument("--json", action="store_true", help="a JSON object")
    one = add("export", _export, "write a session to stdout or to a file")
    one.add_argument("id", metavar="ID", help=short)
    one.add_argument("--format", choices=_FORMATS, default="jsonl", help="(jsonl)")
    one.add_argument("--output", metavar="FILE", help="a new file, readable only by you")
    one = add("delete", _delete, "delete sessions for good")
    one.add_argument("id", metavar="ID", nargs="+", help=short)
    one = add("prune", _prune, "delete the sessions without activity for long")
    one.add_argument(
        "--older-than", type=_age, required=True, metavar="AGE", help="such as 12h, 30d, 8w, 1y"
    )
    one.add_argument("--dry-run", action="store_true", help="only list them")
    return parser


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 999999999, not {text!r}")
    return int(text)


def _age(text: str) -> int:
    try:
        return age(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be like 12h, 30d, 8w or 1y, not {text!r}") from None


def _nothing(options: argparse.Namespace) -> int:
    if hasattr(options, "id"):
        return _refused("there are no sessions yet")
    if getattr(options, "json", False):
        sys.stdout.write("[]\n")
    return 0


def _list(archive: Archive, options: argparse.Namespace) -> int:
    cwd = None if options.cwd is None else canonical(os.path.abspath(options.cwd))
    records = list(itertools.islice(archive.sessions(cwd), None if options.all else options.limit))
    if options.json:
        _write_json([describe(record) for record in records])
    else:
        _write_table(records)
    return 0


def _write_table(records: Sequence[SessionRecord]) -> None:
    if not records:
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    rows = [(r.session_id, local(r.updated_at), r.cwd, r.title or "") for r in records]
    sys.stdout.write(table(("SESSION", "UPDATED", "FOLDER", "TITLE"), rows, width))


def _write_json(value: object) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def _show(archive: Archive, options: argparse.Namespace) -> int:
    record = archive.find(options.id)
    size = archive.size(record.session_id)
    owner = archive.owner(record.session_id)
    turns = list(_turns(archive, record))
    if options.json:
        shown = [{"prompt": prompt, "stopReason": reason} for prompt, reason in turns]
        extra = {"events": size.events, "bytes": size.bytes, "inUseBy": owner, "turns": shown}
        _write_json({**describe(record), **extra})
        return 0
    facts = [
        ("session", record.session_id),
        ("title", record.title or ""),
        ("folder", record.cwd),
        ("created", local(record.created_at)),
        ("updated", local(record.updated_at)),
        ("stored", f"{size.events} events, {bytes_of(size.bytes)}"),
        ("in use", f"by process {owner}" if owner else "no"),
    ]
    sys.stdout.write("".join(f"{name:<9}{printable(value)}\n" for name, value in facts))
    for number, (prompt, reason) in enumerate(turns, 1):
        sys.stdout.write(f"{number:>4}. {printable(prompt)} [{reason or 'open'}]\n")
    return 0


def _turns(archive: Archive, record: SessionRecord) -> Iterator[tuple[str, StopReason | None]]:
    """The first line of each prompt, and how its turn ended."""
    prompt: str | None = None
    kinds = (UserMessage, TurnEnded)
    for _seq, event in archive.store.read(record.session_id, upto=record.last_seq, kinds=kinds):
        if isinstance(event, UserMessage):
            prompt = title_of(event.content)
        elif isinstance(event, TurnEnded) and prompt is not None:
            yield prompt, event.stop_reason
            prompt = None
    if prompt is not None:
        yield prompt, None


def _export(archive: Archive, options: argparse.Namespace) -> int:
    record = archive.find(options.id)
    with _output(options.output) as output:
        for part in _FORMATS[options.format](archive.store, record):
            output.write(part if options.format == "markdown" else part + "\n")
    return 0


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    """Stdout, or a file that was not there; one that could not be written whole is removed."""
    if path is None:
        yield sys.stdout
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            yield file
    except BaseException:
        os.unlink(path)
        raise


def _delete(archive: Archive, options: argparse.Namespace) -> int:
    status = 0
    for beginning in options.id:
        try:
            record = archive.find(beginning)
            if archive.delete(record.session_id):
                sys.stdout.write(f"deleted {record.session_id}\n")
        except AcpError as error:
            status = _refused(error.message)
    archive.reclaim()
    return status


def _prune(archive: Archive, options: argparse.Namespace) -> int:
    # Nothing is older than the epoch, and SQLite counts no further than 64 bits.
    before = max(time.time_ns() // 1000 - options.older_than * 1_000_000, 0)
    old = archive.idle_since(before)
    if options.dry_run:
        _write_table(old)
        return 0
    for record in old:
        try:
            if archive.delete(record.session_id, before):
                sys.stdout.write(f"deleted {record.session_id}\n")
        except SessionInUseError as error:
            sys.stderr.write(f"term2: kept: {error.message}\n")
    archive.reclaim()
    return 0


def _refused(message: str) -> int:
    sys.stderr.write(f"term2: {message}\n")
    return 1
