"""What calls raise: a class for each kind of failure, all of them `Error`."""

from __future__ import annotations


class Error(Exception):
    """A call that came to nothing.

    Where the operating system failed, `errno` is its number and `filename` the file that it was about, if it was one.
    `kind` is the word for what kind of failure it was, and `origin` says who failed: "host" (this library, before anything
    was sent), "kernel" or "device". `status` is the NVMe status of a device, as a number, and `retry` says whether the same
    call can be expected to succeed: "never", "later" (after something else has finished) or "once".
    """

    kind: str = "other"
    origin: str
    status: int | None
    retry: str

    def __init__(
        self,
        said: str,
        origin: str = "host",
        status: int | None = None,
        retry: str = "never",
        errno: int | None = None,
        filename: str | None = None,
    ) -> None:
        super().__init__(said)
        self.origin = origin
        self.status = status
        self.retry = retry
        self.errno = errno
        self.strerror = said if errno is not None else None
        self.filename = filename

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        arguments = (self.args[0], self.origin, self.status, self.retry, self.errno, self.filename)
        return (type(self), arguments)

    def __str__(self) -> str:
        return str(self.args[0])


class ClosedError(Error, ValueError):
    """What it was to be done with is closed."""

    kind = "closed"


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong whatever the device: an empty key, a length of zero."""

    kind = "invalid_argument"


class TooLargeError(Error, ValueError):
    """A length is over a limit: of keys, or one that the device announced."""

    kind = "too_large"


class UnsupportedError(Error):
    """The device or the backend does not do this."""

    kind = "unsupported"


class NotFoundError(Error, LookupError):
    """There is no such device, namespace or file."""

    kind = "not_found"


class MissingFileError(NotFoundError, FileNotFoundError):
    """There is no such file or device node."""


class KeyNotFoundError(Error, KeyError):
    """The key does not exist."""

    kind = "key_not_found"


class KeyExistsError(Error):
    """The key exists, and the command wanted that it does not."""

    kind = "key_exists"


class CapacityExceededError(Error):
    """The namespace has no room left."""

    kind = "capacity_exceeded"


class OutOfRangeError(Error, IndexError):
    """The address is outside the namespace."""

    kind = "out_of_range"


class QueueFullError(Error):
    """The queue has no room for the command now: take completions, then submit it again."""

    kind = "queue_full"


class BusyError(Error):
    """Another process or handle is using it."""

    kind = "busy"


class DeniedError(Error, PermissionError):
    """No permission, or a read-only device."""

    kind = "denied"


class MediaError(Error):
    """The data is not what was written."""

    kind = "media"


class MismatchError(Error):
    """A compare command found a difference."""

    kind = "mismatch"


class CancelledError(Error):
    """The command was given up before it was done."""

    kind = "cancelled"


class TimedOutError(Error, TimeoutError):
    """Nothing came within the time given."""

    kind = "timed_out"


class DeviceLostError(Error):
    """The device is gone, or reported a fatal state."""

    kind = "device_lost"


class ProtocolError(Error):
    """The device said something that the specification does not allow."""

    kind = "protocol"


class DeviceError(Error):
    """Any other failure of the device."""

    kind = "device"


class KernelError(Error, OSError):
    """Any other failure of the operating system."""

    kind = "system"


class ExistingFileError(KernelError, FileExistsError):
    """The file exists, and was to be made."""
