"""Reads members of JSON objects from the server, and names the one that is wrong."""

from __future__ import annotations

from typing import Any

from term2_acp.chat.faults import ServerFaultError


class Fields:
    """
    A JSON object of a message.

    Each getter raises `ServerFaultError` for a member that is missing or has another type.

    Args:
        value: what must be an object.
        where: its place in the message, for the error.
    """

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise wrong(where, "an object")
        self._value: dict[str, Any] = value
        self._where = where

    def text(self, name: str) -> str:
        """A member that is a string."""
        value = self._value.get(name)
        if not isinstance(value, str):
            raise wrong(f"{self._where}.{name}", "a string")
        return value

    def optional_text(self, name: str) -> str | None:
        """A member that is a string, null or absent."""
        return None if self._value.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """A member that is an integer."""
        value = self._value.get(name)
        if type(value) is not int:
            raise wrong(f"{self._where}.{name}", "an integer")
        return value

    def optional_number(self, name: str) -> int | None:
        """A member that is an integer, null or absent."""
        return None if self._value.get(name) is None else self.number(name)

    def child(self, name: str) -> Fields:
        """A member that is an object."""
        return Fields(self._value.get(name), f"{self._where}.{name}")

    def optional_child(self, name: str) -> Fields | None:
        """A member that is an object, null or absent."""
        return None if self._value.get(name) is None else self.child(name)

    def children(self, name: str) -> list[Fields]:
        """A member that is an array of objects."""
        value = self._value.get(name)
        if not isinstance(value, list):
            raise wrong(f"{self._where}.{name}", "an array")
        return [Fields(item, f"{self._where}.{name}[{index}]") for index, item in enumerate(value)]

    def optional_children(self, name: str) -> list[Fields] | None:
        """A member that is an array of objects, null or absent."""
        return None if self._value.get(name) is None else self.children(name)

    def raw(self, name: str) -> Any:
        """A member that may be anything, or None."""
        return self._value.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._value


def wrong(where: str, expected: str) -> ServerFaultError:
    """The fault of a member that is not what the protocol says."""
    return ServerFaultError(f"the server broke the protocol: {where} must be {expected}")
