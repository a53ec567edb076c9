"""What a verb is asked, and what it asks of admission in turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final

from msgspec import Struct

from tessera_embedded.apiserver.errors import (
    BadRequest,
    Conflict,
    Invalid,
    JsonObject,
    conflict,
    invalid,
    wrong,
)
from tessera_embedded.apiserver.http_types import AuthenticatedUser, RequestTarget, Response
from tessera_embedded.apiserver.kinds.rules import KindRules

NAMESPACES: Final = ("", "namespaces")


class AdmissionQuery(Struct):
    """What admission is asked about one write; `obj` and `old` are without kind and apiVersion."""

    stage: str
    """`mutate` or `validate`."""
    operation: str
    """CREATE, UPDATE or DELETE."""
    target: RequestTarget
    user: AuthenticatedUser
    obj: JsonObject | None
    old: JsonObject | None
    fill: Callable[[JsonObject], object]
    """Fills in the defaults again after a mutation."""
    kind: tuple[str, str, str]
    """group, version and kind of `obj`."""
    dry_run: bool = False
    options: JsonObject = {}


Steps = Generator[AdmissionQuery, JsonObject | None, Response]


class WriteRequest(Struct, frozen=True):
    """One write: where, by which user, and how."""

    target: RequestTarget
    user: AuthenticatedUser
    query: Mapping[str, str] = {}
    options: JsonObject = {}
    """DeleteOptions of a deletion."""
    warnings: list[str] = []
    """Takes what the caller is to be warned of."""
    replaces: bool = False
    """PUT: a uid in the body is a precondition."""

    @property
    def dry_run(self) -> bool:
        """Everything is done but the write."""
        return bool(self.query.get("dryRun")) or bool(self.options.get("dryRun"))


class ApiServerEnvironment(Struct, frozen=True):
    """What verbs take from outside: time and chance, so that tests can rule them."""

    now: Callable[[], float]
    """Seconds since the epoch."""
    uid: Callable[[], str]
    suffix: Callable[[], str]
    """Five characters for generateName."""


def review(
    ask: WriteRequest, operation: str, obj: JsonObject | None, old: JsonObject | None,
    rules: KindRules,
) -> AdmissionQuery:  # fmt: skip
    """What admission is asked, first to change the object."""
    resource = ask.target.resource
    return AdmissionQuery(
        "mutate", operation, ask.target, ask.user, obj, old, rules.fill,
        (resource.group, resource.version, resource.kind), ask.dry_run, ask.options,
    )  # fmt: skip


def unpatchable(error: BadRequest) -> Invalid:
    """What an object that is malformed after a patch is refused with."""
    return invalid("", "", "", [wrong("patch", "", error.message)])


def precondition_failed(target: RequestTarget, what: str, wanted: str, have: str) -> Conflict:
    """A uid or resourceVersion that was made a condition is another one."""
    why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {have}"
    return conflict(target.resource.plural, target.resource.group, target.name, why)
