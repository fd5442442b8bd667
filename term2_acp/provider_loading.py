"""Loads the one provider that is used, when the first session exists (spec section 2)."""

from __future__ import annotations

import importlib
import logging
import threading
from typing import Any, Protocol, cast

from term2_acp import memory
from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import ProviderError
from term2_acp.agent.ports import Provider
from term2_acp.selection import Selection

logger = logging.getLogger(__name__)

# They tell addresses, headers and prompts, with what is secret in them.
_TALKATIVE = ("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2")
# Named, not imported: the vendors' SDKs take 0.5 to 1.4 s to import.
_CLASSES = {
    "openai-compatible": ("term2_acp.providers.chat_completions", "ChatCompletionsProvider"),
    "openai": ("term2_acp.providers.responses", "ResponsesProvider"),
    "anthropic": ("term2_acp.providers.messages", "MessagesProvider"),
    "offline": ("term2_acp.providers.offline", "OfflineProvider"),
}


class _Warming(Protocol):
    def warm(self) -> None: ...


class ProviderLoader:
    """
    Gives the provider of a selection; safe to use from any thread.

    `warm_up` loads it on a thread of its own, once; `get` waits for that.
    """

    def __init__(self, selection: Selection, idle_timeout_s: float) -> None:
        self._selection = selection
        self._idle_timeout_s = idle_timeout_s
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._started = False
        self._done = False
        self._provider: Provider | None = None
        self._window: int | None = selection.context_window
        self._asked = not selection.asks_window

    def warm_up(self) -> None:
        """Start loading, unless it was started; never waits."""
        with self._lock:
            if self._started:
                return
            thread = threading.Thread(target=self._load, name="term2-provider", daemon=True)
            # Before the start: a load that fails at once takes it back.
            self._started = True
            try:
                thread.start()
            except RuntimeError:
                # The machine gives no more threads; the next prompt tries again.
                self._started = False
                logger.warning("no thread can be started to load the provider")

    def get(self, cancel: CancelToken) -> Provider:
        """
        The provider; waits while it is being loaded.

        Raises:
            Cancelled: `cancel` was set first.
            ProviderError: it cannot be loaded.
        """
        self.warm_up()
        with cancel.on_cancel(self._wake), self._changed:
            self._changed.wait_for(lambda: self._done or cancel.cancelled or not self._started)
        cancel.raise_if_cancelled()
        if self._provider is None:
            raise ProviderError(
                f"The provider {self._selection.provider} could not be loaded;"
                " the agent's stderr says why."
            )
        return self._provider

    def window(self, cancel: CancelToken) -> int | None:
        """
        The model's context window in tokens, if anybody knows it.

        The service itself is asked once, when the configuration and the catalog do not
        say it.

        Raises:
            Cancelled: `cancel` was set while the service was asked.
        """
        with self._lock:
            ask, self._asked = not self._asked, True
        if ask:
            self._window = self.get(cancel).context_window(self._selection.model, cancel)
        return self._window

    def _load(self) -> None:
        try:
            self._provider = self._make()
        except Exception:
            logger.exception("the provider %s cannot be loaded", self._selection.provider)
        with self._changed:
            # What failed for want of something is tried again by the next prompt.
            self._started = self._done = self._provider is not None
            self._changed.notify_all()
        if self._provider is not None:
            memory.keep_what_is_loaded()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _make(self) -> Provider:
        chosen = self._selection
        module, name = _CLASSES[chosen.kind]
        for name_of_logger in _TALKATIVE:
            logging.getLogger(name_of_logger).setLevel(logging.WARNING)
        cls: Any = getattr(importlib.import_module(module), name)
        if chosen.kind == "offline":
            offline: Provider = cls()
            return offline
        options: dict[str, Any] = {}
        if chosen.kind == "anthropic":
            options["max_output_tokens"] = lambda _model: chosen.max_output_tokens
        provider: Provider = cls(
            chosen.provider,
            base_url=chosen.base_url,
            api_key=chosen.api_key,
            idle_timeout_s=self._idle_timeout_s,
            api_key_env=chosen.api_key_env,
            **options,
        )
        # So that the first prompt does not wait for what the SDK puts off.
        cast("_Warming", provider).warm()
        return provider
