"""What may go wrong between an agent and its node, as one tree.

Each error is named by the state it leaves. `TransientNodeError` may end by itself,
`PermanentNodeError` lasts until an operator changes something.
"""

from __future__ import annotations

from enum import IntEnum


class GrpcCode(IntEnum):
    """The gRPC status codes that are used here."""

    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class NodeError(Exception):
    """Something between an agent and its node failed."""


class TransientNodeError(NodeError):
    """Trying again may succeed."""


class PermanentNodeError(NodeError):
    """Trying again fails until an operator changes something."""


class SocketNotListening(TransientNodeError):
    """No process listens at the socket."""


class SocketUnusable(PermanentNodeError):
    """No process can listen at this path."""


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
    """NRI cannot express this adjustment."""


class PluginRejected(TransientNodeError):
    """The runtime rejected a plugin before it sent any container to it."""


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
