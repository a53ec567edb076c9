"""Where messages are published: `tessera.v1.<cluster>.<what>...`.

The version in the subject changes when a message's meaning does; new fields do not change it.
"""

from __future__ import annotations

import re
from typing import Final

ROOT: Final = "tessera.v1"

DEVICES_BUCKET: Final = "tessera-devices"
"""Key `<node>.<vendor>`; the last state stays, and is republished on `device.<node>.<vendor>`."""
HINTS_BUCKET: Final = "tessera-hints"
"""Key `<node>`; republished on `hint.<node>`."""

_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 253


def token(name: str) -> str:
    """A name as one token of a subject: a node's name may have dots, which separate tokens."""
    return name.replace(".", "_")


def every(cluster: str) -> str:
    """Everything that Tessera publishes about a cluster."""
    return f"{ROOT}.{cluster}.>"


def device(cluster: str, node: str, vendor: str) -> str:
    """Full state of a vendor's cards on a node."""
    return f"{ROOT}.{cluster}.device.{token(node)}.{vendor}"


def allocation(cluster: str, namespace: str, uid: str, what: str) -> str:
    """A step in the life of a pod's allocation: granted, prepared, running, released, refused."""
    return f"{ROOT}.{cluster}.allocation.{namespace}.{uid}.{what}"


def usage(cluster: str, node: str) -> str:
    """What the hook measured on a node."""
    return f"{ROOT}.{cluster}.usage.{token(node)}"


def hint(cluster: str, node: str) -> str:
    """What usage says about a node's cards."""
    return f"{ROOT}.{cluster}.hint.{token(node)}"


def quota(cluster: str, namespace: str, what: str) -> str:
    """A namespace's quota: exceeded, throttled, restored."""
    return f"{ROOT}.{cluster}.quota.{namespace}.{what}"


def plan(cluster: str, id_: str, what: str) -> str:
    """A proposed change: proposed, started, done, declined, failed."""
    return f"{ROOT}.{cluster}.plan.{id_}.{what}"


def gang(cluster: str, namespace: str, name: str, what: str) -> str:
    """A gang: waiting, reserved, missed, started, broken, ended."""
    return f"{ROOT}.{cluster}.gang.{_written(namespace)}.{_written(name)}.{what}"


def queue(cluster: str, group: str, name: str) -> str:
    """How a queue stands."""
    return f"{ROOT}.{cluster}.queue.{token(group)}.{_written(name)}.state"


def _written(name: str) -> str:
    """A name as one token: that of a gang is what a user wrote in an annotation."""
    return _UNFIT.sub("_", name[:_LONGEST]) or "_"
