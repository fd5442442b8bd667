"""The converter of wire types: strict, lenient where the schema says so, with clear errors."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.errors import InvalidParamsError
from term2_acp.wire.base import camel_case, lenient, make_converter, structure_params

CONVERTER = make_converter()


@attrs.frozen
class Inner:
    """An object inside."""

    the_name: str
    is_it: bool = False


@attrs.frozen
class Outer:
    """Parameters of every kind."""

    session_id: str
    max_count: int
    inner: Inner
    more: tuple[Inner, ...] = ()
    maybe: str | None = None
    kind_of: str | None = lenient()
    numbers: tuple[int, ...] | None = lenient()


@attrs.frozen
class Tagged:
    """A value that carries its kind."""

    tag = ("sessionUpdate", "the_kind")
    message_id: str
    text: str | None = None


GOOD = {"sessionId": "s", "maxCount": 1, "inner": {"theName": "n"}}


def read(**changes):
    """The parameters with some members changed; `...` leaves one out."""
    params = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    return structure_params(CONVERTER, params, Outer)


def test_members_have_the_names_of_the_wire():
    """Snake case here, camel case there; unknown members are ignored."""
    assert Outer("s", 1, Inner("n", True), (Inner("m"),), "x") == read(
        inner={"theName": "n", "isIt": True, "the_name": "ignored"},
        more=[{"theName": "m"}],
        maybe="x",
        _meta={"a": 1},
        unknown=[],
    )


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("session_id", "sessionId"),
        ("cwd", "cwd"),
        ("_meta", "_meta"),
        ("type_", "type"),
        ("a_b_c", "aBC"),
        ("more[0]", "more[0]"),
    ],
)
def test_camel_case(name, wire):
    """A trailing underscore is Python's, a leading one the protocol's."""
    assert wire == camel_case(name)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sessionId": ...}, "sessionId is missing"),
        ({"sessionId": None}, "sessionId must be a string"),
        ({"sessionId": 5}, "sessionId must be a string"),
        ({"sessionId": ["s"]}, "sessionId must be a string"),
        ({"maxCount": "1"}, "maxCount must be an integer"),
        ({"maxCount": 1.0}, "maxCount must be an integer"),
        ({"maxCount": True}, "maxCount must be an integer"),
        ({"inner": []}, "inner must be an object"),
        ({"inner": None}, "inner must be an object"),
        ({"inner": {}}, "inner.theName is missing"),
        ({"inner": {"theName": 1}}, "inner.theName must be a string"),
        ({"inner": {"theName": "n", "isIt": 1}}, "inner.isIt must be a boolean"),
        ({"inner": {"theName": "n", "isIt": "true"}}, "inner.isIt must be a boolean"),
        ({"more": {}}, "more must be an array"),
        ({"more": "ab"}, "more must be an array"),
        ({"more": [{"theName": "n"}, {}]}, "more[1].theName is missing"),
        ({"more": [{"theName": "n"}, 5]}, "more[1] must be an object"),
        ({"maybe": 5}, "maybe must be a string"),
    ],
)
def test_a_wrong_member_is_named_with_what_would_be_right(changes, text):
    """By its name on the wire and its place; nothing is converted silently."""
    with pytest.raises(InvalidParamsError) as caught:
        read(**changes)
    assert text == caught.value.message
    assert -32602 == caught.value.code


def test_every_wrong_member_is_named():
    """In one answer."""
    with pytest.raises(InvalidParamsError) as caught:
        read(sessionId=..., maxCount="x", inner={"theName": 5})
    assert {"sessionId is missing", "maxCount must be an integer"} < set(
        caught.value.message.split("; ")
    )
    assert "inner.theName must be a string" in caught.value.message


@pytest.mark.parametrize("params", [[], None, 5, "x"])
def test_parameters_that_are_no_object(params):
    """Whoever gets that far says what would be right."""
    with pytest.raises(InvalidParamsError, match="params must be an object"):
        structure_params(CONVERTER, params, Outer)


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(JUNK)
def test_a_lenient_member_falls_back_to_its_default(value):
    """It never makes the request fail."""
    assert read(kindOf=value).kind_of == (value if isinstance(value, str) else None)
    numbers = isinstance(value, list) and all(type(item) is int for item in value)
    assert read(numbers=value).numbers == (tuple(value) if numbers else None)


@given(st.dictionaries(st.sampled_from([*GOOD, "more", "maybe", "kindOf", "x"]), JUNK))
def test_any_parameters_are_read_or_refused(params):
    """With one line of text that holds nothing of a library's."""
    message = ""
    try:
        structure_params(CONVERTER, params, Outer)
    except InvalidParamsError as error:
        message = error.message
    for part in ("\n", "Traceback", " @ "):
        assert part not in message


def test_members_at_their_default_are_left_out():
    """The wire holds what was said."""
    assert {"sessionId": "s", "maxCount": 1, "inner": {"theName": "n"}} == CONVERTER.unstructure(
        Outer("s", 1, Inner("n"))
    )


def test_a_tagged_value_carries_its_tag():
    """Next to its members, also inside another."""
    assert {"sessionUpdate": "the_kind", "messageId": "m"} == CONVERTER.unstructure(Tagged("m"))
    assert [{"sessionUpdate": "the_kind", "messageId": "m", "text": ""}] == CONVERTER.unstructure(
        [Tagged("m", "")]
    )


@given(
    st.builds(
        Outer,
        st.text(),
        st.integers(),
        st.builds(Inner, st.text(), st.booleans()),
        st.lists(st.builds(Inner, st.text())).map(tuple),
        st.none() | st.text(),
        st.none() | st.text(),
        st.none() | st.lists(st.integers()).map(tuple),
    )
)
def test_what_is_written_is_read_as_it_was(value):
    """Both directions agree."""
    assert value == structure_params(CONVERTER, CONVERTER.unstructure(value), Outer)
