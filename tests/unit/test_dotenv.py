"""Which values of a `.env` file are secret (spec section 7's table)."""

from __future__ import annotations

import time

import pytest

from term2_acp.dotenv import is_dotenv
from term2_acp.redaction import MARKER, Redactor

SECRET = "hunter2-hunter2"
KEY = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "MIIEpAIBAAKCAQEA7bq1c2d3e4f5g6h7i8j9k0lmnopqrstuv+/wxyz01234567\n" * 3
    + "-----END PRIVATE KEY-----\n"
)


@pytest.fixture(name="redactor")
def _redactor():
    return Redactor({"OTHER_TOKEN": "two\nlines-of-it"})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/w/.env", True),
        ("/w/sub/.env.local", True),
        (".ENV", True),
        ("/w/.envrc", True),
        ("/w/.environment", False),
        ("/w/env", False),
        ("/w/.env/lib.py", False),
    ],
)
def test_the_name_of_a_file_says_whether_it_is_one(path, expected):
    """At any depth, in any case."""
    assert expected == is_dotenv(path)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"DB_PASSWORD={SECRET}", f"DB_PASSWORD={MARKER}"),
        (f"export API_KEY = {SECRET}  # live", f"export API_KEY = {MARKER}  # live"),
        (f"api_token='{SECRET} x'\r", f"api_token='{MARKER}'\r"),
        (f'SECRET="{SECRET}" # two', f'SECRET="{MARKER}" # two'),
        (f"# OLD_SECRET={SECRET}", f"# OLD_SECRET={MARKER}"),
        (f'  "aws.secret": "{SECRET}",', f'  "aws.secret": "{MARKER}",'),
        (f'KEY="{SECRET}', f"KEY={MARKER}"),
        (f"A_KEY=`{SECRET}`", f"A_KEY=`{MARKER}`"),
        (f"A_KEY=a#{SECRET}", f"A_KEY={MARKER}"),
    ],
)
def test_a_value_whose_name_says_so_is_redacted(redactor, line, shown):
    """Quoted or not, with export, commented out; the rest of the line stays."""
    assert f"A=1\n{shown}\nB=2\n" == redactor.file("/w/.env", f"A=1\n{line}\nB=2\n")


@pytest.mark.parametrize(
    "line",
    [f"USER={SECRET}", "A_KEY=short", "A_KEY=plainword", "A_KEY=/etc/key.pem", "A_KEY=", "# KEY"],
)
def test_what_is_no_secret_stays(redactor, line):
    """By its name, its length, or as a path or a plain word."""
    assert f"{line}\n" == redactor.file("/w/.env", f"{line}\n")


def test_a_quoted_value_of_several_lines_is_redacted_line_by_line(redactor):
    """And a quote that is never closed hides no other line."""
    text = f'A_KEY="first-line-1\nsecond line\n\nlast"\nB_KEY="{SECRET}\nC_KEY={SECRET}\n'
    expected = f'A_KEY="{MARKER}\n{MARKER}\n\n{MARKER}"\nB_KEY={MARKER}\nC_KEY={MARKER}\n'
    shown = redactor.file("/w/.env", text)
    assert SECRET not in shown
    assert "first-line" not in shown
    assert expected.count("\n") == shown.count("\n")


def test_other_files_lose_only_secrets_of_several_lines(redactor):
    """Each of their lines is redacted, so that a part of the file shows nothing either."""
    text = f"DB_PASSWORD={SECRET}\n{KEY}two\nlines-of-it\nend\n"
    shown = redactor.file("/w/a.txt", text)
    assert f"DB_PASSWORD={SECRET}\n" + f"{MARKER}\n" * 7 + "end\n" == shown


def test_arguments_for_such_a_file_are_redacted_like_it(redactor):
    """Whatever the parameter is called, also in a diff, and only for that file."""
    diff = f" A=1\n-DB_PASSWORD={SECRET}\n+DB_PASSWORD={SECRET}2\n"
    arguments = {
        "operations": [
            {"path": "sub/.env", "diff": diff},
            {"path": "a.txt", "diff": diff},
        ]
    }
    env, other = redactor.value(arguments)["operations"]
    assert env["diff"] == f" A=1\n-DB_PASSWORD={MARKER}\n+DB_PASSWORD={MARKER}\n"
    assert other["diff"] == diff


@pytest.mark.parametrize("line", ['A_KEY="', "A_KEY='x", "A=" + "=" * 50, "#" * 50, "a" * 300])
def test_many_odd_lines_take_no_longer_than_their_length(redactor, line):
    """Half a megabyte of them."""
    text = f"{line}\n" * (500_000 // len(line))
    begun = time.monotonic()
    redactor.file("/w/.env", text)
    assert time.monotonic() - begun < 20
