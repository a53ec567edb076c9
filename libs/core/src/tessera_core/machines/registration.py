"""Where one resource's device plugin stands with its kubelet.

    DETACHED --SocketAppeared--> REGISTERING --Accepted--> SERVING
      |  ^                         |     |                 |    |
      |  +------SocketVanished-----+-----)-----------------+    |
      |                                  |                      |
      |                              StopAsked              StopAsked
      |                                  v                      |
      +--StopAsked--> STOPPED <--SocketVanished-- DRAINING <----+

A socket is there when kubelet's own is there, the same as before, and the plugin's lies where it
was put: a kubelet that starts deletes every socket of the folder before it makes its own. A refused
registration changes nothing; it is tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_core.machines.state_machine import StateMachine


class RegistrationPhase(StrEnum):
    """Where a registration is, and who moves it on."""

    DETACHED = "detached"
    """No kubelet is there; its socket moves it on."""
    REGISTERING = "registering"
    """Our socket listens; kubelet's answer moves it on."""
    SERVING = "serving"
    """Kubelet asks; it stays so until a socket is gone."""
    DRAINING = "draining"
    """Calls under way are let end; they, or time, move it on."""
    STOPPED = "stopped"
    """Nothing listens, and nothing will."""


class SocketAppeared(Struct, frozen=True, tag=True):
    """Kubelet's socket was seen, and the plugin's listens."""


class Accepted(Struct, frozen=True, tag=True):
    """Kubelet took the registration and watches the devices."""


class SocketVanished(Struct, frozen=True, tag=True):
    """Kubelet's socket, or the plugin's, is not what it was, or kubelet does not watch any more."""


class StopRequested(Struct, frozen=True, tag=True):
    """The plugin is to end."""


Event = SocketAppeared | Accepted | SocketVanished | StopRequested

LEGAL: Final[Mapping[tuple[RegistrationPhase, type[Event]], RegistrationPhase]] = {
    (RegistrationPhase.DETACHED, SocketAppeared): RegistrationPhase.REGISTERING,
    (RegistrationPhase.DETACHED, StopRequested): RegistrationPhase.STOPPED,
    (RegistrationPhase.REGISTERING, Accepted): RegistrationPhase.SERVING,
    (RegistrationPhase.REGISTERING, SocketVanished): RegistrationPhase.DETACHED,
    (RegistrationPhase.REGISTERING, StopRequested): RegistrationPhase.DRAINING,
    (RegistrationPhase.SERVING, SocketVanished): RegistrationPhase.DETACHED,
    (RegistrationPhase.SERVING, StopRequested): RegistrationPhase.DRAINING,
    (RegistrationPhase.DRAINING, SocketVanished): RegistrationPhase.STOPPED,
}

advance: Final = StateMachine[RegistrationPhase, Event](LEGAL).advance
