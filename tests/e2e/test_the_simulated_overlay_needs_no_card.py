"""A cluster without a card, and without a vendor's runtime: one `kubectl apply -k` of the overlay
`simulated` makes the passwords, puts simulated cards on the node, pods share them, the smoke test
prints its part, and `tessera check` finds everything right."""

from __future__ import annotations

import json
from functools import partial

from tests.contract.client import Json
from tests.e2e import pods
from tests.e2e.checked import everything_is_right
from tests.e2e.cluster import HOME, OVERLAYS, Cluster
from tests.e2e.conftest import OpenCluster
from tests.e2e.dockerfile import REPOSITORY
from tests.e2e.stage import timed
from tests.e2e.vendors import EXAMPLES

WORK = REPOSITORY / "deploy" / "simulated"
NAMESPACE = "simulated"
MIB_OF_CARD = 16384
EXPECTED = {
    "hami": [3000, 3000], "volcano": [1024], "koordinator": [MIB_OF_CARD // 4],
    "gpumanager": [16 * 256],
}  # fmt: skip
"""Dialect -> MiB of a card that its pods see."""


async def test_pods_share_cards_that_are_not_there(open_installed: OpenCluster) -> None:
    overlay = OVERLAYS / "simulated"
    async with open_installed(overlay=overlay, labels=()) as cluster:
        for step in (
            the_passwords_were_made, every_pod_sees_its_part, the_smoke_test_ends_well,
            everything_is_right,
        ):  # fmt: skip
            await timed(step, cluster)


async def the_passwords_were_made(cluster: Cluster) -> None:
    made = await cluster.get("secret", "tessera-bus", "-n", HOME)
    assert {"scheduler", "agent", "viewer"} <= made["data"].keys()
    restarts = [
        (pod["metadata"]["name"], status["restartCount"])
        for pod in (await cluster.get("pods", "-n", HOME))["items"]
        for status in pod["status"].get("containerStatuses", ())
    ]
    assert [one for one in restarts if one[1]] == []


async def every_pod_sees_its_part(cluster: Cluster) -> None:
    await cluster.kubectl("apply", "-k", str(WORK))
    found = await cluster.until(partial(_cards, cluster), "every pod sees its card")
    assert {dialect: [card["total_mib"] for card in cards] for dialect, cards in found.items()} == (
        EXPECTED
    )
    for cards in found.values():
        for card in cards:
            assert (card["over_result"], card["taken_result"]) == (pods.OUT_OF_MEMORY, 0)


async def _cards(cluster: Cluster) -> dict[str, list[Json]]:
    """Dialect -> what its pods say; empty until all of them do."""
    found: dict[str, list[Json]] = {}
    for pod in (await cluster.get("pods", "-n", NAMESPACE))["items"]:
        if pod["status"].get("phase") == "Running":
            name, dialect = pod["metadata"]["name"], pod["metadata"]["labels"]["dialect"]
            said = (await cluster.kubectl("logs", name, "-n", NAMESPACE)).splitlines()
            found.setdefault(dialect, []).extend(json.loads(line) for line in said[:1])
    whole = {dialect: len(cards) for dialect, cards in found.items()}
    return found if whole == {dialect: len(cards) for dialect, cards in EXPECTED.items()} else {}


async def the_smoke_test_ends_well(cluster: Cluster) -> None:
    """With an image of somebody else, which has no driver in it."""
    await cluster.kubectl("apply", "-f", str(EXAMPLES / "smoke.yaml"))

    async def over() -> bool:
        pod = await cluster.get("pod", "tessera-smoke")
        return bool(pod["status"]["phase"] == "Succeeded")

    await cluster.until(over, "the smoke test ends well")
    assert (await pods.work(cluster, "tessera-smoke"))["total_mib"] == 2000
