"""Redaction of credentials (spec section 7)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.redaction import MARKER, RedactedStream, Redactor

SECRET = "s3cr3t-value-42"
TOKENS = [
    "sk-Abcd3fghIjklmnop9rstuvwx",
    "sk-ant-api03-Abcdefgh1jklmnop_qrstuvwx",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "xoxb-1234567890-abcdef",
    "AKIAABCDEFGHIJKLMNOP",
    "AIza" + "a1B2c" * 7,
    "npm_" + "a1B2" * 9,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
]
BODY = "MIIEpAIBAAKCAQEA7bq1c2d3e4f5g6h7i8j9k0lmnopqrstuv+/wxyz01234567\n" * 3
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}-----END RSA PRIVATE KEY-----"
ENCRYPTED = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"
    f"{BODY}-----END RSA PRIVATE KEY-----"
)
PGP = f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{BODY}-----END PGP PRIVATE KEY BLOCK-----"


@pytest.fixture(name="redactor")
def _redactor() -> Redactor:
    return Redactor({"MY_API_KEY": SECRET, "UMLAUT_PASSWORD": "paßwort-größe"})


@pytest.mark.parametrize("secret", [SECRET, "paßwort-größe", KEY, ENCRYPTED, PGP, *TOKENS])
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


@pytest.mark.parametrize("before", ["\x1b[01;31m", "line\\n", "%3D", "TOKEN_", "'", "x"], ids=ascii)
def test_a_token_needs_nothing_before_it(redactor, before):
    """Colour codes, escapes and names stand right before tokens."""
    for token in TOKENS[2:]:
        assert redactor.text(f"{before}{token} ") == f"{before}{MARKER} "


@pytest.mark.parametrize(
    "text",
    [
        "if line == '-----BEGIN PRIVATE KEY-----':\n    return parse(line)\n",
        ".sk-folding-cube-animation-delay { animation: sk-loading-skeleton-container--wide }",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "AKIA is not enough, nor is sk-short or ghp_short",
    ],
)
def test_ordinary_source_text_stays(redactor, text):
    """What only looks like a beginning is not taken for a secret."""
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    "value", ["/AbCd1fGhIjKlMnOpQrStUvWxYz0123456789+/=", "q" * 40, "line-one-1\n", "two\nlines-2"]
)
def test_odd_values_of_secret_variables_are_found(value):
    """Base64 that begins with a slash, many letters, a line feed at the end or within."""
    redactor = Redactor({"AWS_SECRET_KEY": value})
    assert value.strip() not in redactor.text(f"x {value.strip()} y")
    escaped = json.dumps({"a": value.strip()})
    assert redactor.text(escaped) == f'{{"a": "{MARKER}"}}'


@pytest.mark.parametrize(
    "text",
    [
        "-eyJ" * 400_000,
        "eyJ" + "a" * 1_600_000,
        "sk-" * 500_000,
        "-----BEGIN RSA PRIVATE KEY-----\n" + "y\n" * 800_000,
        "-----BEGIN " * 150_000,
        "ghp_" * 400_000,
        "a.eyJ" * 300_000,
    ],
    ids=lambda text: text[:14],
)
def test_hostile_text_costs_no_more_than_its_length(redactor, text):
    """1.6 MB of what the patterns begin with, at once and as a stream, in bounded memory."""
    redactor.text(text)
    stream = RedactedStream(redactor)
    data = text.encode()
    for start in range(0, len(data), 65536):
        stream.feed(data[start : start + 65536])
        assert stream.waiting <= 16 * 1024
    stream.finish()


def test_a_key_that_never_ends_is_dropped_and_the_rest_is_shown(redactor):
    """Nothing of its body is shown; what comes after it is."""
    stream = RedactedStream(redactor)
    shown = stream.feed(b"before\n-----BEGIN RSA PRIVATE KEY-----\n")
    for _ in range(100):
        shown += stream.feed(BODY.encode())
    shown += stream.feed(b"!! after\n") + stream.finish()
    assert shown.startswith(b"before\n[REDACTED]")
    assert shown.endswith(b"!! after\n")
    assert b"MIIE" not in shown


WORDS = "correct horse 7 battery staple"


@pytest.mark.parametrize("kept", [8, 15, 16, 29])
def test_the_beginning_of_a_secret_that_was_cut_off_is_replaced(kept):
    """A cut may go through a secret of several words; what is left of it is half of it."""
    redactor = Redactor({"MY_PASSWORD": WORDS})
    assert redactor.text(f"must be {WORDS[:kept]}…, not") == f"must be {MARKER}…, not"
    assert redactor.text("so correct… and correct horses…") == "so correct… and correct horses…"


def test_a_secret_of_several_words_is_replaced_in_a_file_before_it_is_cut():
    """A line of a search shows only a part of what it is in."""
    redactor = Redactor({"MY_PASSWORD": WORDS})
    assert redactor.file("a.txt", f"1\n2 {WORDS} 3\n") == f"1\n2 {MARKER} 3\n"


def test_a_secret_is_found_as_python_writes_it():
    """Errors name what is wrong with quotes and escapes of their own."""
    secret = "pa\"ss\\wo'rd$9"
    redactor = Redactor({"MY_SECRET": secret})
    assert redactor.text(f"not {secret!r}") == f"not '{MARKER}'"


def test_a_secret_in_a_member_that_comes_twice_is_not_kept(redactor):
    """The tool gets the last one; the text of the arguments is stored."""
    told = redactor.arguments(f'{{"command": "echo {SECRET}", "command": "true"}}')
    assert json.loads(told) == {"command": "true"}
    assert SECRET not in told
