"""What may go wrong between an agent and its node, as one tree.

Each error is named by the state it leaves. `TransientNodeError` may go well when tried again,
`PermanentNodeError` will not until somebody changes something.
"""

from __future__ import annotations


class NodeError(Exception):
    """Something between an agent and its node failed."""


class TransientNodeError(NodeError):
    """It may go well when tried again."""


class PermanentNodeError(NodeError):
    """Trying again changes nothing."""


class SocketNotListening(TransientNodeError):
    """There is nobody at the socket."""


class SocketUnusable(PermanentNodeError):
    """Nobody can listen at this path."""


class LinkLost(TransientNodeError):
    """The connection is gone, with all calls on it."""


class LinkGarbled(LinkLost):
    """The peer sent what the protocol does not allow; the connection is closed."""


class LinkStuck(LinkLost):
    """The peer does not read; the connection is closed."""


class CallTimedOut(TransientNodeError):
    """The peer was called and did not answer in time; what it did is unknown."""


class CallFailed(NodeError):
    """The peer answered that the call failed."""

    def __init__(self, code: int, message: str) -> None:
        """`code` as gRPC numbers them."""
        super().__init__(message)
        self.code = code
        self.message = message


class Oversized(PermanentNodeError):
    """A message that is too long was not sent; the connection goes on."""


class PluginNameInvalid(PermanentNodeError):
    """A plugin's name or index is not one that a runtime accepts."""


class AdjustmentUnsupported(PermanentNodeError):
    """NRI has no words for this adjustment."""


class PluginRejected(TransientNodeError):
    """A plugin did not get as far as being asked about containers."""


class ContainerNotCreated(TransientNodeError):
    """The container must not be started."""


class ContainerRefused(ContainerNotCreated):
    """A plugin refused the container."""


class AdjustmentsClash(ContainerNotCreated):
    """Two plugins set the same thing."""


class PluginMissing(ContainerNotCreated):
    """A required plugin is not connected."""


class NotAdmitted(PermanentNodeError):
    """The pod has failed, and is not admitted again."""
