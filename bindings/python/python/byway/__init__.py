"""Key-value and block devices by one API, whatever interface leads to them.

    >>> import byway
    >>> with byway.open("embedded-ram:64M", transfer="inline") as device:
    ...     device.kv[b"0041"] = b"LATIN CAPITAL LETTER A"
    ...     device.kv[b"0041"]
    b'LATIN CAPITAL LETTER A'
"""

from os import PathLike, fspath

from . import _byway, _errors, _mapping
from ._byway import *  # noqa: F403
from ._errors import *  # noqa: F403
from ._mapping import Items, Keys, Values  # noqa: F401

__version__ = _byway.__version__

_INSIDE = {"__version__", "ItemIterator", "KeyIterator", "ScanIterator", "open_uri", "uri_of_file", "with_options"}

__all__ = ["open", "open_to_read"]
__all__ += _mapping.__all__
__all__ += [name for name in _byway.__all__ if name not in _INSIDE]
__all__ += [name for name in vars(_errors) if name.endswith("Error")]

_mapping.register(Kv)  # noqa: F405


def open(uri, **options):
    """Opens the device that `uri` names: a path or `file:PATH` for a file or block device, `embedded:PATH`, `embedded-ram:SIZE` or
    `embedded-null:SIZE` for a device in this process, `null-backend:SIZE` for none. Options are those of the URI: `transfer="inline"` is
    `?transfer=inline`, `fixed_buffers=64` is `?fixed-buffers=64`.
    """
    return _byway.open_uri(_address(uri, options))


def open_to_read(uri, **options):
    """As `open`, for reading alone where what it names may not be written."""
    return _byway.open_uri(_address(uri, options), to_read=True)


def _address(uri, options):
    if isinstance(uri, PathLike):
        uri = _byway.uri_of_file(fspath(uri))
    given = "&".join(f"{name.replace('_', '-')}={_word(name, value)}" for name, value in options.items())
    return _byway.with_options(uri, given)


def _word(name, value):
    if isinstance(value, bool):
        return "1" if value else "0"
    word = str(value)
    if "&" in word:
        raise _errors.InvalidArgumentError(f"option {name}={word}: no value has & in it")
    return word


def __getattr__(name):
    # asyncio takes longer to import than all of this.
    if name == "AsyncQueue":
        from .aio import AsyncQueue

        return AsyncQueue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
