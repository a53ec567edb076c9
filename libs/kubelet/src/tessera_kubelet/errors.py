"""What may go wrong between an agent and its node, as one tree.

Each error is named by the state it leaves. `Passing` may go well when tried again, `Lasting` will
not until somebody changes something.
"""

from __future__ import annotations


class KubeletError(Exception):
    """Something between an agent and its node failed."""


class Passing(KubeletError):
    """It may go well when tried again."""


class Lasting(KubeletError):
    """Trying again changes nothing."""


class NobodyListens(Passing):
    """There is nobody at the socket."""


class SocketUnusable(Lasting):
    """Nobody can listen at this path."""


class LinkLost(Passing):
    """The connection is gone, with all calls on it."""


class LinkGarbled(LinkLost):
    """The peer sent what the protocol does not allow; the connection is closed."""


class LinkStuck(LinkLost):
    """The peer does not read; the connection is closed."""


class Unanswered(Passing):
    """The peer was called and did not answer in time; what it did is unknown."""


class CallFailed(KubeletError):
    """The peer answered that the call failed."""

    def __init__(self, code: int, message: str) -> None:
        """`code` as gRPC numbers them."""
        super().__init__(message)
        self.code = code
        self.message = message


class Oversized(Lasting):
    """A message that is too long was not sent; the connection goes on."""


class Misnamed(Lasting):
    """A plugin's name or index is not one that a runtime accepts."""


class Unsayable(Lasting):
    """NRI has no words for this adjustment."""


class PluginRejected(Passing):
    """A plugin did not get as far as being asked about containers."""


class ContainerNotCreated(Passing):
    """The container must not be started."""


class ContainerRefused(ContainerNotCreated):
    """A plugin refused the container."""


class AdjustmentsClash(ContainerNotCreated):
    """Two plugins set the same thing."""


class PluginMissing(ContainerNotCreated):
    """A required plugin is not connected."""


class NotAdmitted(Lasting):
    """The pod has failed, and is not admitted again."""
