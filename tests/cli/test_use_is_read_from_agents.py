"""Without a bus: an agent's own metrics become the use of the pods on its node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from tessera_agent.metrics import AgentMetrics, MetricsSnapshot
from tessera_cli.cluster_state.agent_metrics import usage_in
from tessera_cli.cluster_state.agent_reader import find_agents, scrape
from tessera_cli.settings import registry
from tessera_runtime.errors import ApiForbidden, ApiLost
from tessera_runtime.informers.cluster_feed import ClusterFeed
from tessera_runtime.kube.api import NONE, Body, Verb
from tessera_runtime.metrics import MetricsRegistry
from tessera_schema.messages.device_reports import CardLoad
from tests.cli.card_cluster import GIB, a100, card_node, holding_pod, node_usage, part, use

POD = holding_pod("ml", "train", part("gpu-1", 0, 24, 30))
CARD = a100("gpu-1", 0)
LOAD = CardLoad(card=CARD.id, memory_used_bytes=21 * GIB << 20, cores_percent=31)
AGENT = {
    "metadata": {
        "name": "tessera-agent-nvidia-x", "namespace": "tessera-system",
        "labels": {"app.kubernetes.io/component": "nvidia"},
    },
    "spec": {
        "nodeName": "gpu-1",
        "containers": [{"ports": [{"name": "metrics", "containerPort": 9473}]}],
    },
}  # fmt: skip
PODS = "/api/v1/namespaces/tessera-system/pods"
METRICS = f"{PODS}/tessera-agent-nvidia-x:9473/proxy/metrics"


def metrics() -> str:
    """As the agent serves them."""
    kept = MetricsRegistry("agent")
    use_of = use(POD, 20, 29, limit=35, throttled=4)
    usage = node_usage("gpu-1", msgspec.structs.replace(use_of, enforced=False), loads=[LOAD])
    snapshot = MetricsSnapshot(node="gpu-1", cards=(CARD,), usage=usage)
    AgentMetrics(kept, "gpu-1").take_snapshot = lambda: snapshot
    return kept.text().decode()


class ProxyingKube:
    """An API server that passes requests on to the agents' pods."""

    def __init__(self, answers: Mapping[str, bytes | Exception]) -> None:
        self._answers = answers

    async def call(
        self, verb: Verb, path: str, *, query: Mapping[str, str] = NONE, body: bytes = b"",
        kind: Body = Body.JSON,
    ) -> bytes:  # fmt: skip
        assert (verb, body, kind) == (Verb.GET, b"", Body.JSON)
        answer = self._answers[path]
        if isinstance(answer, Exception):
            raise answer
        assert path != PODS or query["labelSelector"] == "app.kubernetes.io/name=tessera-agent"
        return answer

    def stream(
        self, path: str, *, query: Mapping[str, str] = NONE
    ) -> AbstractAsyncContextManager[Any]:
        raise AssertionError(f"{path} is not watched")


def a_feed() -> ClusterFeed:
    feed = ClusterFeed(registry(None))
    feed.put_nodes([feed.node(msgspec.json.encode(card_node("gpu-1", [CARD])))])
    feed.put_pods([feed.pod(msgspec.json.encode(POD))])
    return feed


async def scraped(answer: bytes | Exception, *nodes: str) -> tuple[ClusterFeed, str]:
    listed = json.dumps({"metadata": {}, "items": [AGENT]}).encode()
    kube = ProxyingKube({PODS: listed, METRICS: answer})
    feed = a_feed()
    problem = await scrape(kube, feed, await find_agents(kube), nodes or ("gpu-1",))
    return feed, problem


async def test_metrics_become_use() -> None:
    feed, problem = await scraped(metrics().encode())
    [[card]] = [row.cards for row in feed.occupancy.rows()]
    [share] = card.shares
    assert (problem, feed.doubted) == ("", 0)
    assert share.measured is not None
    assert (share.measured.memory_bytes, share.measured.cores_percent) == (20 * GIB << 20, 29)
    assert (share.measured.throttled_percent, share.measured.enforced) == (4, False)
    assert share.borrows_percent == 5
    assert (card.used_bytes, card.used_percent) == (21 * GIB << 20, 31)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ApiForbidden(403, "Forbidden", "no"), "it takes the right to get pods/proxy"),
        (ApiLost("refused"), "the component prometheus has agents answer other machines"),
        (b"<html>", "what it answers are no metrics"),
    ],
)
async def test_an_agent_that_does_not_answer_is_no_use(
    answer: bytes | Exception, says: str
) -> None:
    feed, problem = await scraped(answer)
    assert problem.startswith("1 of 1 agents: ")
    assert says in problem
    assert not any(row.measured for row in feed.occupancy.rows())


async def test_a_node_without_an_agent_is_said_to_have_none() -> None:
    _, problem = await scraped(metrics().encode(), "gpu-9")
    assert problem == "use is not known: no agent has a port for metrics there"


def test_pods_that_hold_nothing_there_are_left_out() -> None:
    assert usage_in(metrics(), "gpu-1", "nvidia", {}).containers == ()
