"""The rules of one kind, as functions that default to doing nothing."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tessera_embedded.apiserver.errors import Cause, JsonObject


def _leave(_obj: JsonObject) -> None:
    """Nothing to fill in."""


def _keep_status(new: JsonObject, old: JsonObject) -> None:
    """The main verbs leave `status` alone."""
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def _keep_spec(new: JsonObject, old: JsonObject) -> None:
    """The status subresource leaves all but status and metadata alone."""
    for name in [n for n in new if n not in ("metadata", "status")]:
        del new[name]
    new.update({n: v for n, v in old.items() if n not in ("metadata", "status")})


def _all_well(_obj: JsonObject) -> list[Cause]:
    return []


def _any_change(_new: JsonObject, _old: JsonObject) -> list[Cause]:
    return []


def _know_all(_obj: JsonObject) -> list[str]:
    return []


class KindRules(Struct, frozen=True):
    """What is particular to a kind on its way into the store."""

    default: Callable[[JsonObject], None] = _leave
    """On decoding: fill in, and write quantities canonically. Raises BadRequest."""
    admit: Callable[[JsonObject], None] = _leave
    """On creation: what Kubernetes' own admission plugins add."""
    readmit: Callable[[JsonObject], None] = _leave
    """On an update: what those plugins add again."""
    create: Callable[[JsonObject], None] = _leave
    """On creation, after admission: what users may not set."""
    update: Callable[[JsonObject, JsonObject], None] = _keep_status
    """On the main verbs' update: (new, old)."""
    status: Callable[[JsonObject, JsonObject], None] = _keep_spec
    """On an update through the status subresource: (new, old)."""
    check: Callable[[JsonObject], list[Cause]] = _all_well
    """What is wrong with the object."""
    check_update: Callable[[JsonObject, JsonObject], list[Cause]] = _any_change
    """What may not change: (new, old)."""
    settle: Callable[[JsonObject], list[str]] = _know_all
    """On decoding, first: drop unknown fields, whose paths come back. Raises BadRequest."""

    def fill(self, obj: JsonObject) -> list[str]:
        """Drop what is unknown and fill in what is missing; the paths of what was dropped."""
        dropped = self.settle(obj)
        self.default(obj)
        return dropped


def take_all(_new: JsonObject, _old: JsonObject) -> None:
    """No status subresource: an update is taken as it is."""
