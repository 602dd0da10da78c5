"""Buffer types for type checkers; not imported at run time.

Any object with the buffer protocol is accepted. Before Python 3.12 type checkers do not see it of every class: numpy's arrays are
known by the array interface there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as _ReadableBuffer, WriteableBuffer as _WriteableBuffer


class Array(Protocol):
    """An array of numpy's, or one that is shared in the same way."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


if TYPE_CHECKING:
    ReadableBuffer: TypeAlias = _ReadableBuffer | Array
    WriteableBuffer: TypeAlias = _WriteableBuffer | Array
