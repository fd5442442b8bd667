"""One program and one scripted service of a kind, lent to one test after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from tests.harness.client import Client
from tests.harness.home import Home
from tests.models.configuration import KEY_VARIABLE, KINDS, configure

KEY = "sk-local-not-shown-anywhere"


@attrs.frozen
class Lent:
    """An initialized program with its defaults, and the service that it asks."""

    client: Client
    service: Any


class Lender:
    """Starts what a kind needs once: a program that loads an SDK takes a second to do so."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder
        self._lent: dict[str, Lent] = {}

    def lend(self, kind: str) -> Lent:
        """The program and the service of a kind, without what an earlier test left there."""
        lent = self._lent.get(kind)
        if lent is None:
            service = KINDS[kind]()
            home = Home.create(self._folder(kind))
            configure(home, kind, service)
            client = Client(home, **{KEY_VARIABLE: KEY})
            lent = self._lent[kind] = Lent(client, service)
            client.initialize()
        lent.service.forget_script()
        lent.service.requests.clear()
        lent.client.permissions.forget()
        return lent

    def take_back(self, kind: str) -> None:
        """
        Judge what a test did; after a fault the next one gets another program.

        Raises:
            AssertionError: a request broke a rule of the vendor, or the program one of ours.
        """
        lent = self._lent[kind]
        if lent.service.faults or not lent.client.healthy:
            self._end(kind)

    def close(self) -> None:
        """End every program and service and judge them."""
        for kind in list(self._lent):
            self._end(kind)

    def _end(self, kind: str) -> None:
        lent = self._lent.pop(kind)
        try:
            lent.client.close()
        finally:
            lent.service.close()
        assert lent.service.faults == []
