"""A scheduler's ledger and filter, with an API server in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tessera_core.explain.decision_log import DecisionLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import Filter
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_schema.quotas import Limit
from tessera_testing.builders import a_card
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store
from tests.dialects.adding import acme

REGISTRY = load(extra=[acme])


class Scheduler:
    """A ledger of some nodes with a card of 16 GiB each, and an API server."""

    def __init__(self, nodes: int = 2, limits: Sequence[Limit] = ()) -> None:
        self.clock = LoopClock()
        self.store = a_store(self.clock)
        for name in ("team", "other"):
            self._made("/api/v1/namespaces", {"metadata": {"name": name}})
        self.ledger, self.decisions, self.metrics = Ledger(), DecisionLog(), Metrics("scheduler")
        for n in range(nodes):
            self.ledger.put_node(f"n{n}", [a_card(f"n{n}-0", vendor="acme")])
        self.ledger.set_limits(limits)
        self.kube = FakeKube(self.store)
        self.filter = Filter(
            REGISTRY, self.ledger, Placer(self.ledger.fleet, ScreenCache()), self.decisions
        )

    def _made(self, path: str, body: Any) -> Any:
        response = self.store.handle("POST", path, body=msgspec.json.encode(body))
        assert response.code == 201, response.body
        return msgspec.json.decode(response.body)

    def pod(self, name: str, gib: int, namespace: str = "team", **spec: Any) -> str:
        """Create a pod that requests so much; its uid."""
        amounts = {"acme.com/gib": str(gib)} if gib else {}
        container = {
            "name": "c",
            "image": "i",
            "resources": {"limits": amounts, "requests": amounts},
        }
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        uid: str = self._made(f"/api/v1/namespaces/{namespace}/pods", body)["metadata"]["uid"]
        return uid

    def filter_pod(self, name: str, namespace: str = "team") -> None:
        """Call the filter about it, as kube-scheduler does."""
        pod = self.store.handle("GET", f"/api/v1/namespaces/{namespace}/pods/{name}").body
        names = msgspec.json.encode(list(self.ledger.fleet.rows))
        self.filter(b'{"Pod":' + pod + b',"NodeNames":' + names + b"}", self.clock.time())
