"""
The provider for Chat Completions: vLLM, llama.cpp, Ollama, OpenRouter and the like.

Importing this module loads OpenAI's SDK; only the composition root does, off the
start-up path (spec section 2).
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import httpx2
import openai

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import ModelRequest, ProviderError
from term2_acp.providers.chat_events import ChatEvents
from term2_acp.providers.chat_messages import ChatVariant, chat_messages, chat_tools
from term2_acp.providers.context_windows import read_windows, window_of
from term2_acp.providers.faults import Service
from term2_acp.providers.openai_clients import SDK_FAULTS, keyless_headers, make_client, read_fault
from term2_acp.providers.transport import Exchange
from term2_acp.providers.variants import Variants
from term2_acp.providers.vendor import VendorProvider
from term2_acp.surrogates import replace_in_value

logger = logging.getLogger(__name__)

# The list of models is small, and a session waits for it.
_LIST_TIMEOUT_S = 10.0

_REHEARSAL = b"""\
data: {"choices": [{"index": 0, "delta": {"content": "", "tool_calls": [{"index": 0,\
 "id": "call_0", "function": {"name": "none", "arguments": "{}"}}]}}]}

data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],\
 "usage": {"prompt_tokens": 1, "completion_tokens": 1}}

"""


class ChatCompletionsProvider(VendorProvider[object, ChatVariant]):
    """
    A `Provider` of kind `openai-compatible`; may be used from any thread.

    Args:
        base_url: where the service is, up to and with its `/v1`.
        api_key_env: the name of the variable that the key came from, for texts.
        idle_timeout_s: the silence of the model that ends a step, in seconds.
    """

    sdk_faults = SDK_FAULTS
    rehearsal = _REHEARSAL

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None,
        idle_timeout_s: float,
        api_key_env: str | None = None,
    ) -> None:
        service = Service.at(name, base_url, api_key, api_key_env)
        variants = Variants(ChatVariant(), openai.APIStatusError)
        super().__init__(service, variants, idle_timeout_s)
        self._base_url = base_url
        self._lock = threading.Lock()
        self._windows: dict[str, int] | None = None

    def context_window(self, model: str, cancel: CancelToken) -> int | None:
        """
        The window of a model as `/models` tells it; asked once.

        Raises:
            Cancelled: `cancel` was set.
        """
        cancel.raise_if_cancelled()
        with self._lock:
            windows = self._windows
        if windows is None:
            windows = self._ask_for_windows(cancel)
            with self._lock:
                self._windows = windows
        return window_of(model, windows)

    def reader(self) -> ChatEvents:
        """See `Vendor.reader`."""
        return ChatEvents()

    def fault(self, error: Exception, model: str) -> ProviderError:
        """See `Vendor.fault`."""
        return read_fault(error, self._service, model, self._connections.idle_timeout_s)

    def send(
        self, request: ModelRequest, exchange: Exchange, variant: ChatVariant
    ) -> openai.Stream[object]:
        """See `VendorProvider.send`."""
        client = self._client(exchange, self._connections.timeout)
        body: dict[str, Any] = {
            "model": request.model,
            "messages": replace_in_value(chat_messages(request, self.name, variant)),
            "stream": True,
            **self._cache_marks(request.model),
        }
        if variant.usage_option:
            body["stream_options"] = {"include_usage": True}
        if request.effort:
            body["reasoning_effort"] = request.effort
        if request.tools:
            body["tools"] = replace_in_value(chat_tools(request.tools))
        # The SDK's way to a method without its types, which would be built for nothing: the
        # body is in the vendor's format already, and `ChatEvents` reads JSON.
        return client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            options={"headers": keyless_headers(self._service) or {}},
            stream=True,
            stream_cls=openai.Stream[object],
        )

    def _cache_marks(self, model: str) -> dict[str, Any]:
        """OpenRouter caches prompts for Anthropic's models only where it is asked to."""
        if model.startswith("anthropic/") and "openrouter.ai" in self._service.address:
            return {"cache_control": {"type": "ephemeral"}}
        return {}

    def _client(self, exchange: Exchange, timeout: httpx2.Timeout) -> openai.OpenAI:
        return make_client(
            self._service, exchange.client, base_url=self._base_url, ambient=False, timeout=timeout
        )

    def _ask_for_windows(self, cancel: CancelToken) -> dict[str, int]:
        with self._connections.exchange(cancel) as exchange:
            try:
                answer = self._list_models(exchange)
            except SDK_FAULTS as error:
                cancel.raise_if_cancelled()
                logger.info("%s did not list its models (%s)", self.name, type(error).__name__)
                return {}
        return read_windows(answer)

    def _list_models(self, exchange: Exchange) -> object:
        client = self._client(exchange, httpx2.Timeout(_LIST_TIMEOUT_S))
        # Raw, because lists differ from server to server.
        answer = client.models.with_raw_response.list(extra_headers=keyless_headers(self._service))
        return answer.http_response.json()
