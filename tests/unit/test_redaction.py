"""Redaction of credentials (spec section 7)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.redaction import MARKER, RedactedStream, Redactor

SECRET = "s3cr3t-value-42"
TOKENS = [
    "sk-abcdefghijklmnopqrstuvwx",
    "sk-ant-api03-abcdefghijklmnop_qrstuvwx",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "xoxb-1234567890-abcdef",
    "AKIAABCDEFGHIJKLMNOP",
    "AIza" + "a1B2c" * 7,
    "npm_" + "a1B2" * 9,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
]
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"


@pytest.fixture(name="redactor")
def _redactor() -> Redactor:
    return Redactor({"MY_API_KEY": SECRET, "UMLAUT_PASSWORD": "paßwort-größe"})


@pytest.mark.parametrize("secret", [SECRET, "paßwort-größe", KEY, *TOKENS])
def test_secrets_are_replaced(redactor, secret):
    """Values of secret-looking variables, well-known tokens and private keys."""
    assert redactor.text(f"before {secret} after") == f"before {MARKER} after"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "short"),
        ("SSH_KEY", "/home/me/.ssh/id_rsa"),
        ("KEYBOARD", "ordinary"),
        ("GREETING", "not-a-secret-1"),
        ("TOKEN_FILE", "~/token.txt"),
    ],
)
def test_what_is_no_secret_stays(name, value):
    """Short values, paths, plain words, and variables with other names."""
    assert Redactor({name: value}).text(f"x {value} y") == f"x {value} y"


def test_words_that_look_like_a_beginning_stay(redactor):
    """Text is not eaten because it begins like a token."""
    text = "sk-learn and ask-me, hf_ eyJ ghp_short task-force-one-two-three"
    assert redactor.text(text) == text


def test_arguments_are_judged_by_their_meaning(redactor):
    """A secret that JSON writes with escapes is found; other arguments stay as they were."""
    arguments = json.dumps({"command": "echo paßwort-größe"})
    assert "paßwort" not in arguments
    assert json.loads(redactor.arguments(arguments)) == {"command": f"echo {MARKER}"}
    assert redactor.arguments('{"a" : 1}') == '{"a" : 1}'
    assert redactor.arguments(f'{{"broken": "{SECRET}') == f'{{"broken": "{MARKER}'


@given(
    st.lists(
        st.one_of(
            st.sampled_from([SECRET, "paßwort-größe", KEY, *TOKENS]),
            st.text(alphabet=" \nabs-_kgE.", max_size=12),
        ),
        max_size=6,
    ),
    st.lists(st.integers(1, 60), max_size=30),
)
def test_any_cutting_gives_no_secret_away(parts, cuts):
    """A stream cut anywhere is redacted like the whole, and loses nothing else."""
    redactor = Redactor({"MY_API_KEY": SECRET, "UMLAUT_PASSWORD": "paßwort-größe"})
    whole = " ".join(parts).encode()
    stream = RedactedStream(redactor)
    shown, rest = b"", whole
    for cut in cuts:
        shown += stream.feed(rest[:cut])
        rest = rest[cut:]
    shown += stream.feed(rest) + stream.finish()
    assert shown.decode() == redactor.text(whole.decode())


def test_ordinary_output_is_not_held_back(redactor):
    """A line of progress is shown at once."""
    assert RedactedStream(redactor).feed(b"Compiling 3 of 7\n") == b"Compiling 3 of 7\n"
