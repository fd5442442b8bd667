"""Checks whether the chosen service answers: one bounded request for its list of models."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import attrs
import httpx2

from term2_acp.agent.cancel import CancelToken
from term2_acp.config import OFFLINE
from term2_acp.doctor.report import Check, Fact, Finding, failed, warning
from term2_acp.providers.addresses import address_of
from term2_acp.providers.connection_faults import connection_fault
from term2_acp.providers.faults import Service
from term2_acp.providers.refusals import read_refusal
from term2_acp.providers.transport import Connections
from term2_acp.redaction import Redactor
from term2_acp.selection import Selection

DEADLINE_S = 15.0
"""For everything: looking up the name, connecting, and the answer."""

_MAX_BODY_BYTES = 16 * 1024 * 1024
_ANTHROPIC = "anthropic"


def check(selection: Selection | None, *, deadline_s: float = DEADLINE_S) -> Check:
    """
    Ask the service for its models: is it there, does it take the key, has it the model.

    That is no request to a model, so it costs nothing. The key is sent as in any request,
    and never shown.
    """
    if selection is None:
        return Check("service", "no provider is chosen", skipped=True)
    if selection.kind == OFFLINE:
        return Check("service", "the offline model needs none", skipped=True)
    answer = _ask(selection, deadline_s)
    facts = (
        Fact("url", answer.url),
        Fact("reachable", answer.status is not None),
        Fact("http_status", answer.status),
        Fact("lists_model", answer.lists_model),
    )
    said = Redactor().text
    summary = "cannot be used" if answer.fault else "answers"
    findings = [] if answer.fault is None else [answer.fault]
    if answer.lists_model is False:
        unlisted = f"its list of models has no {selection.model!r}"
        findings.append(warning(unlisted, "check the id of the model, or load it there"))
    return Check(
        "service",
        f"{answer.url} {summary}",
        tuple(attrs.evolve(finding, message=said(finding.message)) for finding in findings),
        facts,
    )


@attrs.frozen
class _Answer:
    """What came back; `lists_model` is None where that cannot be told."""

    url: str
    status: int | None = None
    fault: Finding | None = None
    lists_model: bool | None = None


def _ask(selection: Selection, deadline_s: float) -> _Answer:
    address = address_of(selection.kind, selection.base_url).rstrip("/")
    path = "/v1/models" if selection.kind == _ANTHROPIC else "/models"
    service = Service.at(selection.provider, address, selection.api_key, selection.api_key_env)
    answer = _Answer(f"{service.address}{path}")
    cancel = CancelToken()
    timer = threading.Timer(deadline_s, cancel.cancel)
    timer.name, timer.daemon = "term2-doctor-deadline", True
    timer.start()
    try:
        # Silence is the deadline's to end, which counts for all of it.
        with Connections(2 * deadline_s).exchange(cancel) as exchange:
            request = exchange.client.build_request(
                "GET", f"{address}{path}", headers=_headers(selection)
            )
            response = exchange.client.send(request, stream=True)
            body = _read(response)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        fault = _late(deadline_s) if cancel.cancelled else _broken(service, error, deadline_s)
        return attrs.evolve(answer, fault=fault)
    finally:
        timer.cancel()
    # A body without a length seems whole wherever its connection is shut.
    if cancel.cancelled:
        return attrs.evolve(answer, fault=_late(deadline_s))
    answer = attrs.evolve(answer, status=response.status_code)
    if response.status_code != httpx2.codes.OK:
        return attrs.evolve(answer, fault=_refusal(response, service, selection.model))
    if not _is_json(body):
        return attrs.evolve(answer, fault=_no_api(response))
    return attrs.evolve(answer, lists_model=_lists(body, selection.model))


def _late(deadline_s: float) -> Finding:
    return failed(
        f"no whole answer within {deadline_s:g} s",
        "check base_url and the network, and whether the service is busy",
    )


def _broken(
    service: Service, error: httpx2.HTTPError | httpx2.InvalidURL, deadline_s: float
) -> Finding:
    # Not the words for a prompt that broke off: nobody sent one.
    if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError):
        return failed(
            f"what listens at {service.address} broke off before it gave a whole answer",
            "check that base_url is that of the API, and that the service is well",
        )
    cause = error if isinstance(error, httpx2.HTTPError) else httpx2.UnsupportedProtocol("")
    return failed(str(connection_fault(service, cause, deadline_s)))


def _no_api(response: httpx2.Response) -> Finding:
    kind = response.headers.get("content-type", "").partition(";")[0] or "something else"
    return failed(
        f"it answers with {kind} instead of a list of models in JSON",
        "check base_url, which is that of the API and mostly ends with /v1; a proxy or a page to"
        " log in may be in between",
    )


def _headers(selection: Selection) -> Mapping[str, str]:
    headers = {"Accept": "application/json"}
    if selection.kind == _ANTHROPIC:
        headers["anthropic-version"] = "2023-06-01"
        if selection.api_key:
            headers["x-api-key"] = selection.api_key
    elif selection.api_key:
        headers["Authorization"] = f"Bearer {selection.api_key}"
    return headers


def _read(response: httpx2.Response) -> bytes:
    """The body as far as it is bounded; the response keeps that of an error for its texts."""
    if response.is_error or response.is_redirect:
        return response.read()
    parts = []
    size = 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > _MAX_BODY_BYTES:
            break
    return b"".join(parts)


def _refusal(response: httpx2.Response, service: Service, model: str) -> Finding:
    if response.status_code in (404, 405, 501):
        return warning(
            f"it has no list of models ({response.status_code}), so that its key and model"
            " could not be checked",
            "if prompts fail too, check base_url",
        )
    return failed(str(service.refused(read_refusal(response), model)))


def _is_json(body: bytes) -> bool:
    # What was longer than is read cannot be told.
    try:
        json.loads(body)
    except ValueError:
        return len(body) > _MAX_BODY_BYTES
    except RecursionError:
        return True
    return True


def _lists(body: bytes, model: str) -> bool | None:
    """Whether a list of models has one; None where it is no such list, or only one page of it."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return None
    ids = {entry.get("id") for entry in entries if isinstance(entry, dict)}
    # Ollama takes a name without its tag; a server of one model takes any id.
    if model in ids or f"{model}:latest" in ids:
        return True
    return None if answer.get("has_more") or len(ids) < 2 else False
