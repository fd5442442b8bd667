"""The dispatch by jsonrpcserver: any parameter comes through, and no exception text gets out."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.errors import (
    AcpError,
    InternalError,
    InvalidParamsError,
    MethodNotFoundError,
    SessionBusyError,
    SessionInUseError,
)
from term2_acp.rpc.calls import Call, Deferred
from term2_acp.rpc.engine import Engine

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.one_of(
    st.sampled_from(["context", "self", "call", "params", "method", "id", "request", "", "a b"]),
    st.text(max_size=5),
)


def call(method="m"):
    """A request without anybody to answer."""
    return Call(1, method, lambda response: None)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_the_handler_gets_the_parameters_as_they_are(params):
    """No name of a parameter clashes with one of the library's."""
    seen = []
    engine = Engine({"m": lambda call, params: seen.append((call, params))})
    request = call()
    assert engine.dispatch(request, params) is None
    assert [(request, params)] == seen


@given(VALUES)
def test_what_the_handler_returns_comes_back_as_it_is(result):
    """Results are not judged or changed on the way."""
    returned = Engine({"m": lambda call, params: result}).dispatch(call(), {})
    assert returned is result


def test_a_deferred_answer_comes_back_itself():
    """The dispatcher runs it on a worker."""
    deferred = Deferred(lambda: None)
    assert Engine({"m": lambda call, params: deferred}).dispatch(call(), {}) is deferred


@pytest.mark.parametrize("method", ["x", "", "m ", "M", "rpc.m", "m\n", "\ufffd", "dispatch"])
def test_an_unknown_method_is_not_found(method):
    """Names are exact; the error names the method."""
    with pytest.raises(MethodNotFoundError, match="method not found") as caught:
        Engine({"m": lambda call, params: None}).dispatch(call(method), {})
    assert method in caught.value.message


@pytest.mark.parametrize("params", [[], [1], ["a", {}], [[]] * 5])
def test_positional_parameters_are_invalid(params):
    """Parameters are named in this protocol; an empty array is no object either."""
    engine = Engine({"m": lambda call, params: params})
    with pytest.raises(InvalidParamsError, match="params must be an object"):
        engine.dispatch(call(), params)


@pytest.mark.parametrize(
    "error",
    [
        InvalidParamsError("cwd is wrong"),
        SessionBusyError("s"),
        SessionInUseError("in use"),
        InternalError("a text of ours"),
        MethodNotFoundError("no"),
        AcpError("plain"),
    ],
)
def test_an_error_of_ours_comes_back_itself(error):
    """With its code and its text."""

    def handler(call, params):
        raise error

    with pytest.raises(AcpError) as caught:
        Engine({"m": handler}).dispatch(call(), {})
    assert caught.value is error


@pytest.mark.parametrize(
    "exception",
    [ValueError("secret"), TypeError("secret"), KeyError("secret"), RecursionError("secret")],
)
def test_any_other_exception_is_an_internal_error_without_its_text(exception, caplog):
    """The text stays on stderr. A TypeError of the handler is no wrong parameter."""

    def handler(call, params):
        raise exception

    with caplog.at_level(logging.ERROR), pytest.raises(InternalError) as caught:
        Engine({"session/x": handler}).dispatch(call("session/x"), {})
    assert "secret" not in caught.value.message
    assert "session/x" in caught.value.message
    assert "secret" in caplog.text
