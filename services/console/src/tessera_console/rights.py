"""Whose token it is, and what its owner may see: asked of the API server, remembered for seconds.

Nothing is shown by this service's own rights. A caller sees the pods of those namespaces whose pods
it may list; of other pods it gets sizes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from tessera_console.settings import RightsSettings
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.authorization import Caller, may, owner_of
from tessera_schema.annotation_keys import GROUP


class NotSignedIn(Exception):
    """There is no token, or it is nobody's."""


class RightsUnknown(Exception):
    """The API server does not answer; the message says why. Nothing is shown then."""


class CallerScope(Struct, frozen=True, kw_only=True):
    """What one caller may see and do. Equal scopes see the same."""

    everything: bool = False
    """Pods of all namespaces."""
    namespaces: frozenset[str] = frozenset()
    """Whose pods it may list, among those that have pods with cards."""
    quotas: frozenset[str] = frozenset()
    """Whose AcceleratorQuotas it may list."""
    plans: bool = False
    """It may list RebalancePlans."""
    decides: bool = False
    """It may change RebalancePlans."""
    unasked: int = 0
    """Namespaces that are too many to ask about."""

    def sees(self, namespace: str) -> bool:
        """Whether pods of this namespace have names."""
        return self.everything or namespace in self.namespaces


OPEN: Final = CallerScope(everything=True, plans=True)
"""Where everybody may see everything. Nobody decides: nobody is known."""


class ConsoleCaller(Struct, frozen=True, kw_only=True):
    """Who calls."""

    name: str
    token: str
    """Empty = nobody is asked for one."""
    scope: CallerScope


class _Known(Struct):
    until: float
    user: Caller | None
    scope: CallerScope | None = None
    about: frozenset[str] = frozenset()
    """The namespaces that the scope is about."""
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class Rights:
    """The callers that are known."""

    def __init__(
        self, kube: Kube, settings: RightsSettings, namespaces: Callable[[], Collection[str]]
    ) -> None:
        """`namespaces` are those that have pods with cards, or quotas."""
        self.reviews = 0
        """How many the API server was asked for."""
        self._kube = kube
        self._settings = settings
        self._namespaces = namespaces
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._turns = asyncio.Semaphore(settings.reviews_at_once)

    async def caller(self, token: str) -> ConsoleCaller:
        """The owner of this token. Raises NotSignedIn, RightsUnknown."""
        if not token:
            raise NotSignedIn("no token")
        known = self._entry(token)
        async with known.turn:
            now = asyncio.get_running_loop().time()
            try:
                if known.until <= now:
                    known.user, known.scope = await self._owner(token), None
                    known.until = now + self._settings.cache_s
                if known.user is None:
                    raise NotSignedIn("the token is nobody's, or has expired")
                about = frozenset(self._namespaces())
                if known.scope is None or not about <= known.about:
                    known.scope = await self._scope(known.user, about)
                    known.about = about
            except TesseraError as e:
                known.until = 0
                raise RightsUnknown(str(e)) from e
            return ConsoleCaller(name=known.user.username, token=token, scope=known.scope)

    def _entry(self, token: str) -> _Known:
        key = hashlib.sha256(token.encode()).digest()
        known = self._known.setdefault(key, _Known(until=0, user=None))
        self._known.move_to_end(key)
        while len(self._known) > self._settings.callers:
            self._known.popitem(last=False)
        return known

    async def _owner(self, token: str) -> Caller | None:
        self.reviews += 1
        async with self._turns:
            return await owner_of(self._kube, token)

    async def _scope(self, user: Caller, about: frozenset[str]) -> CallerScope:
        pods, quotas, plans, decides = await self._allowed(user, [
            ("list", "", "pods", ""), ("list", GROUP, "acceleratorquotas", ""),
            ("list", GROUP, "rebalanceplans", ""), ("patch", GROUP, "rebalanceplans", ""),
        ])  # fmt: skip
        known = sorted(about)[: self._settings.namespaces]
        seen = [] if pods else await self._allowed(user, [("list", "", "pods", n) for n in known])
        limits = [quotas] * len(known) if quotas else await self._allowed(
            user, [("list", GROUP, "acceleratorquotas", n) for n in known]
        )  # fmt: skip
        return CallerScope(
            everything=pods, namespaces=_where(known, seen), quotas=_where(known, limits),
            plans=plans, decides=decides, unasked=0 if pods else len(about) - len(known),
        )  # fmt: skip

    async def _allowed(self, user: Caller, attempts: list[tuple[str, str, str, str]]) -> list[bool]:
        """For each verb, group, resource and namespace. Raises as `Kube.call` does."""
        tasks: list[asyncio.Task[bool]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks += [
                    group.create_task(self._may(user, *one), name="review") for one in attempts
                ]
        except* TesseraError as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _may(self, user: Caller, verb: str, group: str, resource: str, where: str) -> bool:
        about = {"verb": verb, "group": group, "resource": resource, "namespace": where}
        self.reviews += 1
        async with self._turns:
            return await may(self._kube, user, about)


def _where(names: Iterable[str], allowed: Iterable[bool]) -> frozenset[str]:
    return frozenset(name for name, one in zip(names, allowed, strict=False) if one)
