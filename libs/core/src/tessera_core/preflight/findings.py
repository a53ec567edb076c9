"""What a check finds: a state, what was read, and the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_core.preflight.snapshot import InstallationSnapshot

_NAMES_MOST: Final = 5


class FindingState(StrEnum):
    """How it stands, the worst last but one."""

    OK = "ok"
    WARNING = "warning"
    """It works, or may work, and somebody decides whether that is enough."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It cannot be read: a right is missing, or nothing shows it."""


class Outcome(Struct, frozen=True):
    """One answer of a check."""

    state: FindingState
    found: str
    remedy: str = ""
    """A command, or a sentence where no single command mends it; empty where all is well."""


class Finding(Struct, frozen=True, kw_only=True):
    """An outcome with the name of its check."""

    group: str
    name: str
    state: FindingState
    found: str
    remedy: str = ""


class PreflightCheck(Struct, frozen=True, kw_only=True):
    """One check. `run` yields one outcome, or one for each thing that is wrong."""

    group: str
    name: str
    about: str
    """What is compared with what, for the page that lists all checks."""
    reads: tuple[str, ...]
    """Sources of the snapshot (`snapshot.SOURCES`) without which nothing can be said."""
    run: Callable[[InstallationSnapshot], Iterable[Outcome]]
    before: bool = False
    """It makes sense before an installation, too."""
    of_node: bool = False
    """It is about nodes, so that it makes sense for one of them."""


def ok(found: str) -> Outcome:
    """All is well."""
    return Outcome(FindingState.OK, found)


def warning(found: str, remedy: str) -> Outcome:
    """It works, and is worth a decision."""
    return Outcome(FindingState.WARNING, found, remedy)


def failed(found: str, remedy: str) -> Outcome:
    """It does not work."""
    return Outcome(FindingState.FAILED, found, remedy)


def unknown(found: str, remedy: str) -> Outcome:
    """It cannot be read."""
    return Outcome(FindingState.UNKNOWN, found, remedy)


def listed(names: Iterable[str]) -> str:
    """The first names in order, and how many more there are."""
    known = sorted(names)
    more = len(known) - _NAMES_MOST
    return ", ".join(known[:_NAMES_MOST]) + (f" and {more} more" if more > 0 else "")


def spaced(names: Iterable[str]) -> str:
    """All names as arguments of a command."""
    return " ".join(sorted(names))


def on_node(node: str, command: str) -> str:
    """A command that runs on the node's own file system, as root."""
    start = f"kubectl debug node/{node} -it --profile=sysadmin --image=busybox"
    return f"{start} -- chroot /host {command}"


def or_ok(problems: Iterable[Outcome], found: str) -> Sequence[Outcome]:
    """The problems, or that all is well."""
    return tuple(problems) or (ok(found),)
