"""What can go wrong between Tessera and the world, named by the state that it leaves.

    TesseraError
     ├── Permanent          trying again changes nothing
     │    ├── BadSettings
     │    └── ApiRefused           the API server said no: nothing was done
     │         ├── ApiNotFound       404
     │         ├── ApiConflict       409: another write came first, or the object exists
     │         ├── ApiExpired        410: list again
     │         └── ApiForbidden      401, 403
     └── Transient          may go away by itself: loops catch this and try again
          ├── ApiBusy              429: nothing was done
          ├── ApiLost              time-out, reset, 5xx: it may have been done, or not
          └── BusAway              NATS does not answer

A status is looked at once, in `kube.answers`; nothing else sees aiohttp, NATS or Kubernetes errors.
"""

from __future__ import annotations

from collections.abc import Iterator


class TesseraError(Exception):
    """Anything that the world did to us."""


class Permanent(TesseraError):
    """Trying again changes nothing."""


class Transient(TesseraError):
    """May go away by itself."""


class BadSettings(Permanent):
    """A setting is missing or makes no sense; the message names it, its value and what would do."""


class ApiRefused(Permanent):
    """The API server definitely did not do it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """`reason` is the Status object's, such as AlreadyExists."""
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class ApiNotFound(ApiRefused):
    """There is no such object."""


class ApiConflict(ApiRefused):
    """A precondition failed, or the object exists."""


class ApiExpired(ApiRefused):
    """The resource version or page is too old: list again."""


class ApiForbidden(ApiRefused):
    """Our credentials do not allow it."""


class ApiBusy(Transient):
    """The API server asks to come back later; nothing was done."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        """`retry_after_s` as the server asked, 1 where it did not say."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ApiLost(Transient):
    """No answer, or one that does not say: a write may have been done."""


class BusAway(Transient):
    """NATS does not answer. Placement goes on; messages wait or are dropped, and counted."""


def reasons(error: BaseException) -> Iterator[BaseException]:
    """The errors of which a group is made; an error by itself is its own reason."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from reasons(one)
    else:
        yield error
