"""What one open page has, and what has changed since: a full state first, then differences.

Documents have keys, such as `node/gpu-1`. A page gets those that are new or other than it has, and
the keys of those that are gone. Nodes are encoded once for all callers with equal rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tessera_console import documents
from tessera_console.caller_api import Answers
from tessera_console.cluster import ConsoleCluster
from tessera_console.event_log import LoggedEvent
from tessera_console.rights import CallerScope, ConsoleCaller
from tessera_core.occupancy.rows import NodeRow

SCOPES: Final = 64
"""Sets of rights for which encoded nodes are remembered."""


class ViewUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message to a page."""

    at: float
    """Unix time at which all of it is so."""
    full: bool = False
    """What the page had before counts no more."""
    put: dict[str, Raw] = {}
    drop: tuple[str, ...] = ()
    events: list[LoggedEvent] | UnsetType = UNSET


class EncodedNodes:
    """The documents of nodes for one scope; one that has not changed is encoded once."""

    def __init__(self, scope: CallerScope) -> None:
        self._scope = scope
        self._known: dict[str, tuple[NodeRow, bytes, bytes]] = {}

    def of(self, rows: list[NodeRow]) -> Iterator[tuple[str, bytes]]:
        """Keys and documents."""
        known, self._known = self._known, {}
        for row in rows:
            found = known.get(row.name)
            if found is None or found[0] is not row:
                found = row, *self._encoded(row, found)
            self._known[row.name] = found
            yield f"node/{row.name}", found[1]
            yield f"use/{row.name}", found[2]

    def _encoded(
        self, row: NodeRow, before: tuple[NodeRow, bytes, bytes] | None
    ) -> tuple[bytes, bytes]:
        node = documents.encoded(documents.node(row, self._scope))
        use = documents.encoded(documents.node_use(row, self._scope))
        if before is None:
            return node, use
        return (
            before[1] if before[1] == node else node,
            before[2] if before[2] == use else use,
        )  # fmt: skip


class SharedNodes:
    """`EncodedNodes` by scope, those of the scopes that are used."""

    def __init__(self) -> None:
        self._scopes: dict[CallerScope, EncodedNodes] = {}

    def of(self, scope: CallerScope) -> EncodedNodes:
        """Those of a scope."""
        found = self._scopes.pop(scope, None) or EncodedNodes(scope)
        self._scopes[scope] = found
        while len(self._scopes) > SCOPES:
            del self._scopes[next(iter(self._scopes))]
        return found


class PageView:
    """One open page."""

    def __init__(
        self, cluster: ConsoleCluster, nodes: SharedNodes, facts: Mapping[str, Any]
    ) -> None:
        """`facts` are part of the document `meta`."""
        self._cluster = cluster
        self._nodes = nodes
        self._facts = facts
        self._has: dict[str, bytes] | None = None
        self._events = 0

    def update(self, caller: ConsoleCaller, answers: Answers, at: float) -> ViewUpdate:
        """What the page lacks."""
        scope, before = caller.scope, self._has
        now = dict(self._documents(caller, answers))
        had = before or {}
        put = {
            key: Raw(text) for key, text in now.items()
            if had.get(key) is not text and had.get(key) != text
        }  # fmt: skip
        drop = tuple(key for key in had if key not in now)
        log, self._has = self._cluster.events, now
        events, self._events = log.after(self._events, scope), log.count
        return ViewUpdate(at=at, full=before is None, put=put, drop=drop, events=events or UNSET)

    def _documents(self, caller: ConsoleCaller, answers: Answers) -> Iterator[tuple[str, bytes]]:
        cluster, scope = self._cluster, caller.scope
        rows = cluster.rows()
        yield from self._nodes.of(scope).of(rows)
        hidden = 0
        for place, row in enumerate(cluster.feed.occupancy.waiting()):
            if scope.sees(row.namespace):
                document = documents.waiting(row, answers.get(row.uid)) | {"place": place}
                yield f"wait/{row.uid}", documents.encoded(document)
            else:
                hidden += 1
        for item in cluster.quotas.known.values():
            if scope.everything or item.metadata.namespace in scope.quotas:
                yield f"quota/{item.key}", documents.encoded(documents.quota(item, scope))
        if scope.plans:
            for plan in cluster.plans.known.values():
                yield f"plan/{plan.key}", documents.encoded(documents.plan(plan, scope))
        yield "meta", documents.encoded({
            **self._facts, "user": caller.name, "problems": cluster.problems(),
            "bus": cluster.connected, "bus_since": round(cluster.bus_since),
            "totals": documents.totals(cluster.feed.occupancy.totals()),
            "waiting_hidden": hidden, "everything": scope.everything, "plans": scope.plans,
            "decides": scope.decides and self._facts["acts"], "unasked": scope.unasked,
        })  # fmt: skip


def encoded(update: ViewUpdate) -> bytes:
    """As a server-sent event."""
    return b"data: " + _encode(update) + b"\n\n"


_encode: Final = msgspec.json.Encoder().encode
