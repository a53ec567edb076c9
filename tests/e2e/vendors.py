"""Iluvatar's and Moore Threads' pods, as the examples have them, on a node where doubles of those
makers' own plugins give the cards. Our agents look on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from msgspec.structs import replace

from tessera_schema.grants import GRANT_KEY, decode_grant
from tessera_schema.injections import Mount
from tests.contract.client import Client, Json
from tests.e2e import pods
from tests.e2e.cluster import HOME, Cluster
from tests.e2e.node import NODE
from tests.node.vendorplugin import FOLDER, ILUVATAR, MTHREADS, Make, Place, a_vendor_plugin

EXAMPLES = Path(__file__).parents[2] / "examples"
SEVERAL = 4
"""Cards, as the example of Iluvatar has them."""
PODS = {
    "iluvatar": ("corex-half-a", "corex-half-b", "corex-two-cards"),
    "mthreads": ("gpushare-half", "gpushare-two-containers", "gpu-whole"),
}
"""Those of the examples that these cards can serve."""
LABEL = "tessera.dev/cards"


async def vendors_plugins_give_their_cards(cluster: Cluster) -> None:
    client = await _account(cluster)
    cards = {"iluvatar.ai/vcuda-core": 100, "iluvatar.ai/vcuda-memory": 128}
    iluvatar = replace(ILUVATAR, cards=SEVERAL, units=cards, mounts=_libraries(cluster.folder))
    for make in (iluvatar, MTHREADS):
        async with _installed(cluster, make, client):
            await _run(cluster, make)
    await cluster.kubectl("label", "node", NODE, f"{LABEL}-")
    events = await cluster.get("events", "-A", "--field-selector=reason=OtherCardsGiven")
    assert events["items"] == []


async def _account(cluster: Cluster) -> Client:
    """Of the plugins, as Iluvatar's is usually installed; the overlay lets it write on pods."""
    name, namespace = "gpu-manager", "kube-system"
    await cluster.kubectl("create", "serviceaccount", name, "-n", namespace)
    await cluster.kubectl(
        "create", "clusterrolebinding", name, "--clusterrole=edit",
        f"--serviceaccount={namespace}:{name}",
    )  # fmt: skip
    await cluster.kubectl(
        "create", "clusterrole", f"{name}-nodes", "--verb=get", "--resource=nodes"
    )
    await cluster.kubectl(
        "create", "clusterrolebinding", f"{name}-nodes", f"--clusterrole={name}-nodes",
        f"--serviceaccount={namespace}:{name}",
    )  # fmt: skip
    token = await cluster.kubectl("create", "token", name, "-n", namespace)
    return cluster.admin.named(token.strip())


def _libraries(folder: Path) -> tuple[Mount, ...]:
    """What Iluvatar's plugin lays into containers, by name."""
    there = folder / "iluvatar"
    there.mkdir()
    for name in ("libcuda.so.1", "libixml.so"):
        (there / name).write_bytes(b"")
    return (Mount(source=str(there), destination="/usr/local/iluvatar/lib64", read_only=True),)


@asynccontextmanager
async def _installed(cluster: Cluster, make: Make, client: Client) -> AsyncGenerator[None]:
    """The plugin counts its cards, and our agent has published them."""
    folder = cluster.node.island.outside(FOLDER)
    async with a_vendor_plugin(make, Place(client, NODE, folder, cluster.until)):
        await cluster.kubectl("label", "node", NODE, "--overwrite", f"{LABEL}={make.vendor}")

        async def published() -> bool:
            node = await cluster.get("node", NODE)
            text = node["metadata"]["annotations"].get(f"cards.tessera.dev/{make.vendor}", "{}")
            agents = await cluster.get("daemonset", f"tessera-agent-{make.vendor}", "-n", HOME)
            ready = agents["status"].get("numberReady", 0) == 1
            return ready and len(json.loads(text).get("cards", ())) == make.cards

        await cluster.until(published, f"{make.vendor}'s cards are published")
        yield


async def _run(cluster: Cluster, make: Make) -> None:
    listed = yaml.safe_load_all((EXAMPLES / f"{make.vendor}.yaml").read_text())
    asked = [one for one in listed if one and one["metadata"]["name"] in PODS[make.vendor]]
    namespace = make.vendor
    await cluster.namespace(namespace)
    await cluster.apply(*asked)
    async with asyncio.TaskGroup() as group:
        for one in asked:
            name = one["metadata"]["name"]
            group.create_task(_has_its_cards(cluster, make, name, namespace), name=name)
    await cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    await cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=1")


async def _has_its_cards(cluster: Cluster, make: Make, name: str, namespace: str) -> None:
    """Those of its grant, in the process itself, and none of another make."""
    pod = await cluster.running(name, namespace)
    env = await pods.environment(cluster, name, namespace)
    given = set(env[make.variable].split(","))
    assert given == _granted(pod), (name, given)
    assert env[pods.CARDS] == "void", name


def _granted(pod: Json) -> set[str]:
    shares = decode_grant(pod["metadata"]["annotations"][GRANT_KEY]).shares
    return {str(share.index) for share in shares}
