"""What the API server shows, and what processes show of themselves, as a test reads it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

import aiohttp
from msgspec import Struct

from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY
from tessera_schema.kube import TERMINAL_PHASES
from tessera_schema.node_cards import decode_node_cards
from tests.cluster.bound_grants import grant_of
from tests.contract.client import Json
from tests.e2e.cluster import PATIENCE_S, Cluster
from tests.e2e.node import NODE

LOOK_S = 0.5
CALL_S = 10.0
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Observation(Struct, frozen=True, kw_only=True):
    """The API server's objects at one moment."""

    pods: Sequence[Json]
    cards: Mapping[str, Card]

    @property
    def granted(self) -> list[Json]:
        """Pods that hold something."""
        return [
            pod for pod in self.pods
            if GRANT_KEY in pod["metadata"].get("annotations", {})
            and pod["spec"].get("nodeName") and phase(pod) not in TERMINAL_PHASES
        ]  # fmt: skip

    def of_service(self, service: str) -> list[Json]:
        """Our own pods of that name which have not ended, and are not about to."""
        label = f"tessera-{service}"
        return [
            pod for pod in self.pods
            if pod["metadata"].get("labels", {}).get("app.kubernetes.io/name") == label
            and phase(pod) not in TERMINAL_PHASES and "deletionTimestamp" not in pod["metadata"]
        ]  # fmt: skip

    @property
    def free_mib(self) -> dict[str, int]:
        """Card -> what nobody was granted."""
        free = {card: about.memory_mib for card, about in self.cards.items()}
        for pod in self.granted:
            for share in grant_of(pod).shares:
                free[share.card] -= share.memory_mib
        return free

    @property
    def waiting(self) -> list[Json]:
        """Pods that nobody has placed."""
        return [pod for pod in self.pods if not pod["spec"].get("nodeName")]


async def observe(cluster: Cluster) -> Observation:
    """Pods and cards, at one moment each; waits for an API server that is away."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                listed = (await cluster.admin.get("/api/v1/pods")).done
                node = (await cluster.admin.get(f"/api/v1/nodes/{NODE}")).done
                published = node["metadata"]["annotations"]["cards.tessera.dev/nvidia"]
                cards = {card.id: card for card in decode_node_cards(published).cards}
                return Observation(pods=listed["items"], cards=cards)
            except (aiohttp.ClientError, AssertionError, KeyError):
                await asyncio.sleep(LOOK_S)


def phase(pod: Json) -> str:
    """As its status has it."""
    return str(pod["status"].get("phase", ""))


async def scrape(url: str, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of each sample of a metric. Raises as aiohttp does."""
    timeout = aiohttp.ClientTimeout(total=CALL_S)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
        text = await answer.text()
    return [
        (dict(_LABEL.findall(labels)), float(value))
        for found, labels, value in _SAMPLE.findall(text) if found == name
    ]  # fmt: skip
