"""
The provider for Anthropic's Messages API.

Importing this module loads Anthropic's SDK; only the composition root does, off the
start-up path (spec section 2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import cast

import anthropic
import httpx2
from anthropic.types import (
    RawMessageStreamEvent,
)

from term2_acp.agent.model import ModelRequest, ProviderError
from term2_acp.providers.addresses import address_of
from term2_acp.providers.connection_faults import connection_fault
from term2_acp.providers.faults import Service
from term2_acp.providers.headers import ambient_header_names
from term2_acp.providers.messages_events import MessageEvents
from term2_acp.providers.messages_input import (
    MessagesVariant,
    begins_without_thinking,
    message_rounds,
    write_messages,
    write_system,
    write_tools,
)
from term2_acp.providers.messages_thinking import Thinking, thinking_for, wants_thinking_first
from term2_acp.providers.refusals import describe_error, read_refusal
from term2_acp.providers.transport import Exchange
from term2_acp.providers.variants import Variants
from term2_acp.providers.vendor import VendorProvider
from term2_acp.surrogates import replace_in_value

# The format requires a limit; every current model can write as much.
_DEFAULT_OUTPUT_TOKENS = 32_000

_REHEARSAL = b"""\
event: message_start
data: {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}

event: message_stop
data: {"type": "message_stop"}

"""


class MessagesProvider(VendorProvider[RawMessageStreamEvent, MessagesVariant]):
    """
    A `Provider` of kind `anthropic`; may be used from any thread.

    Args:
        base_url: without `/v1`; None is the vendor's own, or what ANTHROPIC_BASE_URL names.
        max_output_tokens: the most that a model can write, as far as it is known.
        api_key_env: the name of the variable that the key came from, for texts.
        idle_timeout_s: the silence of the model that ends a step, in seconds.
    """

    sdk_faults = (
        anthropic.AnthropicError,
        httpx2.HTTPError,
        httpx2.InvalidURL,
        # Events that are no JSON or no UTF-8.
        json.JSONDecodeError,
        UnicodeDecodeError,
        RecursionError,
    )
    rehearsal = _REHEARSAL

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None,
        api_key: str | None,
        idle_timeout_s: float,
        max_output_tokens: Callable[[str], int | None],
        api_key_env: str | None = None,
    ) -> None:
        address = address_of("anthropic", base_url)
        service = Service.at(name, address, api_key, api_key_env)
        variants = Variants(MessagesVariant(), anthropic.APIStatusError)
        super().__init__(service, variants, idle_timeout_s)
        self._base_url = base_url
        self._max_output_tokens = max_output_tokens

    def reader(self) -> MessageEvents:
        """See `Vendor.reader`."""
        return MessageEvents()

    def fault(self, error: Exception, model: str) -> ProviderError:
        """See `Vendor.fault`."""
        if isinstance(error, anthropic.APIStatusError):
            if error.status_code >= 300:
                return self._service.refused(read_refusal(error.response), model)
            # An error event of a stream that began well.
            kind, message = describe_error(error.body)
            return self._service.reported(kind, message, model)
        idle = self._connections.idle_timeout_s
        if isinstance(error, anthropic.APIConnectionError):
            return connection_fault(self._service, error.__cause__ or error, idle)
        if isinstance(error, httpx2.InvalidURL):
            return connection_fault(self._service, httpx2.UnsupportedProtocol(""), idle)
        if isinstance(error, httpx2.HTTPError):
            return connection_fault(self._service, error, idle)
        return self._service.unreadable()

    def send(
        self, request: ModelRequest, exchange: Exchange, variant: MessagesVariant
    ) -> anthropic.Stream[RawMessageStreamEvent]:
        """See `VendorProvider.send`."""
        max_tokens = self._max_output_tokens(request.model) or _DEFAULT_OUTPUT_TOKENS
        conversation = message_rounds(request, self.name, fresh=variant.fresh)
        thinking = thinking_for(request.model, request.effort, max_tokens)
        if wants_thinking_first(thinking) and (
            variant.unbudgeted or begins_without_thinking(conversation)
        ):
            thinking = Thinking()
        body = {
            "system": write_system(request.system),
            "messages": write_messages(conversation),
            "tools": write_tools(request.tools),
        }
        return self._client(exchange).messages.create(
            model=request.model,
            max_tokens=max_tokens,
            messages=[],
            # In the vendor's format already: the SDK would walk through all of it for nothing.
            extra_body=replace_in_value({name: value for name, value in body.items() if value}),
            thinking=thinking.thinking or anthropic.omit,
            output_config=thinking.output_config or anthropic.omit,
            stream=True,
        )

    def _client(self, exchange: Exchange) -> anthropic.Anthropic:
        return anthropic.Anthropic(
            # The SDK would look for credentials of its own for None.
            api_key=self._service.secret or "none",
            base_url=self._base_url,
            default_headers=self._headers(),
            http_client=exchange.client,
            max_retries=0,
            timeout=self._connections.timeout,
            # No prompt leaves this machine by another way.
            open_telemetry=False,
        )

    def _headers(self) -> Mapping[str, str]:
        """The key; at other places than the vendor's own, what it is given is left out."""
        names = [] if self._service.secret else ["Authorization"]
        if self._base_url is not None:
            names += ambient_header_names("ANTHROPIC_CUSTOM_HEADERS")
        # The SDK accepts `Omit` here, but does not say so in its types.
        headers = cast("dict[str, str]", {name: anthropic.Omit() for name in names})
        return headers | self._service.key_header()
