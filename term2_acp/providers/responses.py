"""
The provider for OpenAI's Responses API.

Importing this module loads OpenAI's SDK; only the composition root does, off the
start-up path (spec section 2).
"""

from __future__ import annotations

from typing import cast

import openai
from openai.types.responses import (
    ResponseIncludable,
    ResponseStreamEvent,
)
from openai.types.shared_params import Reasoning, ReasoningEffort

from term2_acp.agent.model import ModelRequest, ProviderError
from term2_acp.providers.addresses import address_of
from term2_acp.providers.faults import Service
from term2_acp.providers.openai_clients import SDK_FAULTS, keyless_headers, make_client, read_fault
from term2_acp.providers.responses_events import ResponseEvents
from term2_acp.providers.responses_input import (
    ResponseVariant,
    cache_key,
    response_input,
    response_tools,
)
from term2_acp.providers.transport import Exchange
from term2_acp.providers.variants import Variants
from term2_acp.providers.vendor import VendorProvider
from term2_acp.surrogates import replace_in_value

_ENCRYPTED: ResponseIncludable = "reasoning.encrypted_content"
# Families from before models reasoned, and those that never do.
_WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt")

_REHEARSAL = b"""\
data: {"type": "response.created", "response": {"status": "in_progress", "output": []}}

data: {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}}

data: {"type": "response.output_text.delta", "output_index": 0, "delta": "none"}

data: {"type": "response.completed", "response": {"status": "completed", "output": [\
{"type": "reasoning", "summary": [{"type": "summary_text", "text": ""}]},\
{"type": "message", "content": [{"type": "output_text", "text": ""}]}],\
 "usage": {"input_tokens": 1, "output_tokens": 1}}}

"""


class ResponsesProvider(VendorProvider[ResponseStreamEvent, ResponseVariant]):
    """
    A `Provider` of kind `openai`; may be used from any thread.

    Args:
        base_url: None is the vendor's own, or what OPENAI_BASE_URL names.
        api_key_env: the name of the variable that the key came from, for texts.
        idle_timeout_s: the silence of the model that ends a step, in seconds.
    """

    sdk_faults = SDK_FAULTS
    rehearsal = _REHEARSAL

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None,
        api_key: str | None,
        idle_timeout_s: float,
        api_key_env: str | None = None,
    ) -> None:
        address = address_of("openai", base_url)
        service = Service.at(name, address, api_key, api_key_env)
        variants = Variants(ResponseVariant(), openai.APIStatusError)
        super().__init__(service, variants, idle_timeout_s)
        self._base_url = base_url

    def reader(self) -> ResponseEvents:
        """See `Vendor.reader`."""
        return ResponseEvents()

    def fault(self, error: Exception, model: str) -> ProviderError:
        """See `Vendor.fault`."""
        return read_fault(error, self._service, model, self._connections.idle_timeout_s)

    def send(
        self, request: ModelRequest, exchange: Exchange, variant: ResponseVariant
    ) -> openai.Stream[ResponseStreamEvent]:
        """See `VendorProvider.send`."""
        client = make_client(
            self._service,
            exchange.client,
            base_url=self._base_url,
            ambient=self._base_url is None,
            timeout=self._connections.timeout,
        )
        body = {
            "instructions": request.system,
            "input": response_input(request, self.name, fresh=variant.fresh),
            "tools": response_tools(request.tools),
        }
        thinks = not request.model.startswith(_WITHOUT_REASONING)
        return client.responses.create(
            model=request.model,
            # In the vendor's format already: the SDK would walk through all of it for nothing.
            extra_body=replace_in_value({name: value for name, value in body.items() if value}),
            reasoning=_reasoning(request.effort, summary=thinks and variant.summary) or openai.omit,
            # Nothing is kept at the vendor: what a step needs comes back with it.
            include=[_ENCRYPTED] if thinks and variant.encrypted else openai.omit,
            store=False,
            stream=True,
            prompt_cache_key=cache_key(request),
            extra_headers=keyless_headers(self._service),
        )


def _reasoning(effort: str | None, *, summary: bool) -> Reasoning:
    """How much a model is to think, and that it is to say what it thinks."""
    reasoning: Reasoning = {}
    if effort is not None:
        reasoning["effort"] = cast("ReasoningEffort", effort)
    if summary and effort != "none":
        reasoning["summary"] = "auto"
    return reasoning
