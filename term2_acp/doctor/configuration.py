"""Checks the configuration file, and which model answers by it."""

from __future__ import annotations

import logging
import os
from typing import Self

import attrs

from term2_acp import config, config_file
from term2_acp.doctor.report import Check, Fact, failed, warning
from term2_acp.providers.addresses import address_of
from term2_acp.providers.faults import Service
from term2_acp.selection import Selection, select


@attrs.define
class Settings:
    """What the checks found for those that come after them; None where it cannot be used."""

    config: config.Config | None = None
    selection: Selection | None = None


def check(path: str, settings: Settings) -> Check:
    """Read the file as the server does: which keys are wrong, and which mean nothing."""
    there = os.path.lexists(path)
    facts = (Fact("file", path), Fact("exists", there))
    if not there:
        settings.config = config.Config()
        return Check("configuration", f"{path} does not exist; the defaults hold", (), facts)
    try:
        settings.config, unknown = config_file.load(path)
    except config.ConfigError as error:
        finding = failed(
            _without(path, str(error)),
            "mend the file, or move it away: the defaults work without it",
        )
        return Check("configuration", f"{path} cannot be used", (finding,), facts)
    findings = tuple(
        warning(_without(path, text), "mend its name, or remove it") for text in unknown
    )
    return Check("configuration", path, findings, facts)


def _without(path: str, text: str) -> str:
    """A message without the file, which the line above it names."""
    return text.removeprefix(f"{path}: ")


def check_provider(settings: Settings) -> Check:
    """Resolve provider and model as the server does when the editor gives it no flag."""
    if settings.config is None:
        return Check("provider", "the configuration cannot be used", skipped=True)
    with _Said() as said:
        try:
            chosen = settings.selection = select(settings.config)
        except config.ConfigError as error:
            return Check("provider", "none can be used", (failed(str(error)),))
    findings = tuple(warning(text) for text in said.warnings)
    address = Service.at("", address_of(chosen.kind, chosen.base_url), None, None).address
    key = f", key from {chosen.api_key_env}" if chosen.api_key_env else ""
    place = f" at {address}" if address else ""
    return Check(
        "provider",
        f"{chosen.provider}: {chosen.model}{place}{key}",
        findings,
        (
            Fact("provider", chosen.provider),
            Fact("kind", chosen.kind),
            Fact("model", chosen.model),
            Fact("effort", chosen.effort),
            Fact("base_url", address or None),
            Fact("api_key_env", chosen.api_key_env),
            Fact("api_key_is_set", chosen.api_key is not None),
            Fact("context_window", chosen.context_window),
            Fact("max_output_tokens", chosen.max_output_tokens),
        ),
    )


class _Said(logging.Handler):
    """What the selection warns of while the block runs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.warnings: list[str] = []
        self._logger = logging.getLogger(select.__module__)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it; nothing else shows it."""
        self.warnings.append(record.getMessage())

    def __enter__(self) -> Self:
        self._propagate, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagate
