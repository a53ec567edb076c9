"""Who may do what: tokens are users, users have rules, the group system:masters may do all.

RBAC in small: the rules are given when the server is opened and are no objects of its API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_embedded.apiserver.errors import Forbidden, Unauthorized, qualified
from tessera_embedded.apiserver.http_types import ANONYMOUS, AuthenticatedUser

MASTERS: Final = "system:masters"
_OPEN_TO_ALL: Final = ("/version", "/readyz", "/livez", "/healthz")


class Rule(Struct, frozen=True):
    """Verbs on resources, as a rule of a ClusterRole; `*` is everything."""

    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    """`pods`, `pods/binding`, `*/status`."""
    groups: tuple[str, ...] = ("",)
    names: tuple[str, ...] = ()
    """Object names; none given is any."""
    namespaces: tuple[str, ...] = ()
    """Namespaces; none given is any, and cluster-wide requests too."""


class Account(Struct, frozen=True):
    """Somebody who is given a token."""

    name: str
    rules: tuple[Rule, ...] = ()
    """Of several accounts of one name those of the last hold for all."""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}
    """What else authentication says of it, such as the node of a pod's token."""
    token: str = ""
    """Name of its token in `tokens.json`; empty = the account's."""

    @property
    def token_name(self) -> str:
        """Where its token is."""
        return self.token or self.name


class Attempt(Struct, frozen=True):
    """What somebody is about to do."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """Of a request that is about no resource."""


class Access:
    """Tokens and rules."""

    def __init__(self) -> None:
        self._users: dict[str, AuthenticatedUser] = {}
        self._rules: dict[str, tuple[Rule, ...]] = {}

    def give(self, token: str, user: AuthenticatedUser, rules: Sequence[Rule] = ()) -> None:
        """Let a token be a user with these rules."""
        self._users[token] = user
        self._rules[user.name] = tuple(rules)

    def lend(self, token: str, user: AuthenticatedUser) -> None:
        """Let a token be a user, whose rules stay as they are, until the server ends."""
        self._users[token] = user

    def user_of(self, token: str) -> AuthenticatedUser | None:
        """Whose token it is."""
        return self._users.get(token)

    def authenticate(self, header: str) -> AuthenticatedUser:
        """The user of an Authorization header. Raises Unauthorized for a token of nobody."""
        if not header:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise Unauthorized("Unauthorized")
        return user

    def allows(self, user: AuthenticatedUser, attempt: Attempt) -> bool:
        """True where a rule of the user covers the attempt."""
        if MASTERS in user.groups:
            return True
        if not attempt.resource:
            known = user is not ANONYMOUS and attempt.path.startswith(("/api", "/openapi"))
            return attempt.path.startswith(_OPEN_TO_ALL) or known
        return any(_covers(rule, attempt) for rule in self._rules.get(user.name, ()))

    def check(self, user: AuthenticatedUser, attempt: Attempt) -> None:
        """Raises Forbidden where `allows` says no."""
        if self.allows(user, attempt):
            return
        if not attempt.resource:
            raise Forbidden(
                f'forbidden: User "{user.name}" cannot {attempt.verb} path "{attempt.path}"'
            )
        what = f"{attempt.resource}/{attempt.subresource}".rstrip("/")
        which = qualified(attempt.resource, attempt.group)
        where = f'in the namespace "{attempt.namespace}"' if attempt.namespace else (
            "at the cluster scope")  # fmt: skip
        name = f' "{attempt.name}"' if attempt.name else ""
        details = {"name": attempt.name, "group": attempt.group, "kind": attempt.resource}
        raise Forbidden(
            f'{which}{name} is forbidden: User "{user.name}" cannot {attempt.verb} resource '
            f'"{what}" in API group "{attempt.group}" {where}',
            details={key: value for key, value in details.items() if value},
        )


def _covers(rule: Rule, attempt: Attempt) -> bool:
    what = f"{attempt.resource}/{attempt.subresource}".rstrip("/")
    any_status = f"*/{attempt.subresource}" if attempt.subresource else "*"
    return (
        _has(rule.verbs, attempt.verb)
        and _has(rule.groups, attempt.group)
        and (_has(rule.resources, what) or any_status in rule.resources)
        and (not rule.names or attempt.name in rule.names)
        and (not rule.namespaces or attempt.namespace in rule.namespaces)
    )


def _has(known: Iterable[str], wanted: str) -> bool:
    return wanted in known or "*" in known


def user_info(user: AuthenticatedUser) -> Mapping[str, object]:
    """A UserInfo object, as admission and TokenReview spell it."""
    extra = {name: list(values) for name, values in user.extra.items()}
    known = {
        "username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra,
    }  # fmt: skip
    return {name: value for name, value in known.items() if value}
