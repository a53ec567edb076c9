"""What planning says of one pod: the answer that `tessera place` prints and services act on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from tessera_schema.grants import Grant
from tessera_schema.injections import Injection
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason


class Verdict(StrEnum):
    """What became of a pod."""

    PLACED = "placed"
    WAITING = "waiting"
    """It is valid, and no node has room for it now."""
    REJECTED = "rejected"
    """It can never run as written."""
    IGNORED = "ignored"
    """It requests no accelerator, or is not for Tessera: `PlanOutcome.unserved`."""


class UnmetReason(Struct, frozen=True, kw_only=True):
    """One reason on one node, in numbers. `node` is empty for reasons of the pod as a whole."""

    node: str = ""
    reason: Reason
    message: str


class ContainerAfter(Struct, frozen=True, kw_only=True):
    """A container as admission leaves it: complete limits and requests, and the environment that
    admission set."""

    limits: Mapping[str, str]
    requests: Mapping[str, str]
    env: Mapping[str, str]


class PlanOutcome(Struct, frozen=True, kw_only=True):
    """The answer for one pod."""

    pod: Pod
    verdict: Verdict
    dialects: tuple[str, ...] = ()
    node: str = ""
    message: str = ""
    unserved: bool = False
    """Ignored though it asks for accelerators, by names that are nobody's here or in a way that has
    it left alone: `message` says which."""
    containers: Mapping[str, ContainerAfter] = {}
    """Containers that ask for accelerators or that admission changed, by name."""
    grant: Grant | None = None
    annotations: Mapping[str, str] = {}
    """What the Binding writes on the pod, with what admission sets."""
    injections: Mapping[str, Injection] = {}
    """Container -> what the agent gives it."""
    reasons: tuple[UnmetReason, ...] = ()
    warnings: tuple[str, ...] = ()
