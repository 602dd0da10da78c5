"""What a key-value namespace has as every mapping of Python's: views, and the methods that follow from the others."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._byway import Kv

__all__ = ["Items", "Keys", "Values"]


class Keys(KeysView[bytes]):
    """Keys in order, as a view: all, those that begin with a prefix, those from a key on."""

    def __init__(self, kv: Kv, prefix: bytes = b"", start: bytes | None = None) -> None:
        super().__init__(kv)
        self._kv, self._prefix, self._start = kv, prefix, start
        self._begun: Iterator[bytes] | None = None

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (bytes, bytearray, memoryview)):
            return False
        key = bytes(key)
        is_meant = key.startswith(self._prefix) and (self._start is None or key >= self._start)
        return is_meant and 1 <= len(key) <= 16 and key in self._kv

    def __iter__(self) -> Iterator[bytes]:
        return self._kv._iter_keys(self._prefix, self._start) if self._begun is None else self._begun

    def __len__(self) -> int:
        if self._start is None:
            return self._kv.count(self._prefix)
        return sum(1 for _ in self._kv._iter_keys(self._prefix, self._start))

    def __next__(self) -> bytes:
        """The next key, for programs that take this for an iterator: `iter()` makes one."""
        if self._begun is None:
            self._begun = iter(self)
        return next(self._begun)

    def __repr__(self) -> str:
        return f"<byway.Keys of {self._kv!r}>"


class Items(ItemsView[bytes, bytes]):
    """Keys in order with their values, as a view."""

    def __init__(self, kv: Kv, prefix: bytes = b"", start: bytes | None = None) -> None:
        super().__init__(kv)
        self._keys = Keys(kv, prefix, start)
        self._begun: Iterator[tuple[bytes, bytes]] | None = None

    def __contains__(self, item: object) -> bool:
        if not (isinstance(item, tuple) and len(item) == 2):
            return False
        key, value = item
        return key in self._keys and bool(self._keys._kv.get(key) == value)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        of = self._keys
        return of._kv._iter_items(of._prefix, of._start) if self._begun is None else self._begun

    def __len__(self) -> int:
        return len(self._keys)

    def __next__(self) -> tuple[bytes, bytes]:
        """The next pair, for programs that take this for an iterator: `iter()` makes one."""
        if self._begun is None:
            self._begun = iter(self)
        return next(self._begun)

    def __repr__(self) -> str:
        return f"<byway.Items of {self._keys._kv!r}>"


class Values(ValuesView[bytes]):
    """Values in the order of their keys, as a view."""

    def __init__(self, kv: Kv, prefix: bytes = b"", start: bytes | None = None) -> None:
        super().__init__(kv)
        self._items = Items(kv, prefix, start)

    def __contains__(self, value: object) -> bool:
        return any(found == value for found in self)

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<byway.Values of {self._items._keys._kv!r}>"


def update(kv: Kv, pairs: Any) -> None:
    """Stores what a mapping or an iterable of pairs has."""
    if hasattr(pairs, "keys") and not hasattr(pairs, "items"):
        keyed = pairs
        pairs = ((key, keyed[key]) for key in keyed.keys())
    kv.load(pairs)


def clear(kv: Kv) -> None:
    """Deletes every key."""
    for key in kv:
        kv.delete(key)


def is_equal(kv: Kv, other: Any) -> bool:
    """Whether both have the same keys with the same values."""
    return len(kv) == len(other) and all(other.get(key) == value for key, value in kv.items())


def register(kind: type) -> None:
    """Makes a class known as a mapping."""
    MutableMapping.register(kind)
