"""Manifests written for other systems run unchanged: admitted, placed, granted in one write."""

from pathlib import Path

import pytest
import yaml

from tessera_demo import scenario
from tests.cluster.bound_grants import grant_of, shares_on
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_node
from tests.cluster.plane import CLOCKWORK
from tests.cluster.replica import REGISTRY
from tests.contract.client import Json

EXAMPLES = Path(__file__).parents[2] / "examples"
OPT_IN = sorted(REGISTRY.opt_in)
"""Dialects that an installation serves only where its configuration names them; the example of each
is called like it, and has nodes of its own system, which plans alone count."""
CLUSTERS = sorted(
    f.stem
    for f in EXAMPLES.glob("*.yaml")
    if "kind: Node\n" in f.read_text() and f.stem not in OPT_IN
)
"""Examples that bring their nodes along."""
SEEDS = Path(scenario.__file__).parent / "scene" / "pods.yaml"
WAITING = {"too-large-for-now", "beyond-quota", "one-and-a-half"}
"""Pods of the demo that are not to be placed."""
PATHS = {
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "ResourceQuota": "/api/v1/namespaces/{namespace}/resourcequotas",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "AcceleratorQuota": "/apis/tessera.dev/v1alpha1/namespaces/{namespace}/acceleratorquotas",
    "Device": "/apis/scheduling.koordinator.sh/v1alpha1/devices",
    "Node": "/api/v1/nodes",
}


def documents(file: Path) -> list[Json]:
    return list(yaml.safe_load_all(file.read_text()))


async def apply(cluster: RealCluster, objects: list[Json]) -> int:
    """Make them, in namespaces of this test's own, nodes and quotas first; how many pods that ask
    for cards there will be."""
    order = ("Node", "Device", "ResourceQuota", "AcceleratorQuota")
    pods = 0
    for body in sorted(objects, key=lambda o: o["kind"] not in order):
        meta = body["metadata"]
        namespace = ""
        if "namespace" in meta:
            namespace = meta["namespace"] = f"{cluster.own}-{meta['namespace']}"
            if namespace not in cluster.namespaces:
                await cluster.namespace(namespace)
        if body["kind"] == "Node":
            meta.setdefault("annotations", {}).update(CLOCKWORK)
        await cluster.make(PATHS[body["kind"]].format(namespace=namespace), body)
        if body["kind"] == "Pod":
            pods += requesting(body)
        elif "template" in body.get("spec", {}):
            spec = body["spec"]
            pods += spec.get("replicas", spec.get("completions", 1)) * requesting(spec["template"])
    return pods


async def all_placed(cluster: RealCluster, count: int) -> list[Json]:
    """Wait until so many pods that ask for cards have nodes; they."""

    async def holds() -> list[Json]:
        bound = [pod for name in cluster.namespaces for pod in await cluster.bound(name)]
        placed = [pod for pod in bound if requesting(pod)]
        return placed if len(placed) == count else []

    found: list[Json] = await cluster.until(holds, f"{count} pods that ask bound")
    return found


def requesting(pod: Json) -> bool:
    notes = pod.get("metadata", {}).get("annotations", {})
    if not REGISTRY.request_keys.isdisjoint(notes):
        return True
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    return any(
        name in REGISTRY.resources
        for c in containers
        for name in c.get("resources", {}).get("limits", {})
    )


def has_its_keys(pod: Json) -> None:
    """The grant, and for each dialect that writes result keys one of these, as that system does."""
    notes = pod["metadata"]["annotations"]
    for name in {share.dialect for share in grant_of(pod).shares}:
        keys = REGISTRY.readers[name].result_keys
        assert not keys or any(k == key or (key[-1] == "*" and k.startswith(key[:-1]))
                               for k in notes for key in keys), (name, notes)  # fmt: skip


@pytest.mark.parametrize("name", CLUSTERS)
async def test_the_pods_of_an_example_are_placed_with_the_keys_of_their_systems(
    open_cluster: OpenCluster, name: str
) -> None:
    async with open_cluster() as cluster:
        count = await apply(cluster, documents(EXAMPLES / f"{name}.yaml"))
        assert count
        for pod in await all_placed(cluster, count):
            has_its_keys(pod)


@pytest.mark.parametrize("name", OPT_IN)
async def test_pods_of_a_dialect_that_is_switched_on_are_placed(
    open_cluster: OpenCluster, tmp_path: Path, name: str
) -> None:
    example = REGISTRY.readers[name].example
    file = tmp_path / "dialects.yaml"
    file.write_text(yaml.safe_dump({name: {"enabled": True, **example.options}}))
    more = {"schedulerName": example.scheduler_name} if example.scheduler_name else {}
    async with open_cluster(more={"TESSERA_DIALECTS_FILE": str(file)}) as cluster:
        await cluster.nodes(1, cards=4)
        for number, limits in enumerate(example.containers):
            texts = {resource: str(amount) for resource, amount in limits.items()}
            await cluster.pod(f"p{number}", texts, **more)
        for pod in await all_placed(cluster, len(example.containers)):
            has_its_keys(pod)
            assert {share.dialect for share in grant_of(pod).shares} == {name}


async def test_the_pods_of_the_demo_share_cards_of_three_vendors(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=4)
        await cluster.nodes(1, cards=2, vendor="iluvatar", mib=32768)
        await cluster.nodes(1, cards=2, vendor="mthreads", mib=49152)
        pods = [d for d in documents(SEEDS) if d["metadata"]["name"] not in WAITING]
        placed = await all_placed(cluster, await apply(cluster, pods))
        for one in placed:
            has_its_keys(one)
        dialects = {share.dialect for one in placed for share in grant_of(one).shares}
        assert dialects == set(REGISTRY.readers) - REGISTRY.opt_in
        together = [{s.dialect for s in shares} for shares in shares_on(placed).values()]
        assert any(len(on_card) > 1 for on_card in together), together


async def test_pods_of_the_demo_whose_dialects_have_to_be_named_get_a_card_each(
    open_cluster: OpenCluster,
) -> None:
    opt_in = scenario.read_opt_in()
    async with open_cluster(more={"TESSERA_DIALECTS_FILE": str(scenario.DIALECTS)}) as cluster:
        [node] = await cluster.nodes(1, cards=len(opt_in.pods), mib=16384)
        labels: Json = {"metadata": {"labels": dict(opt_in.node.labels)}}
        (await cluster.admin.patch(f"/api/v1/nodes/{node}", labels)).done  # noqa: B018  (checks)
        placed = await all_placed(cluster, await apply(cluster, [dict(pod) for pod in opt_in.pods]))
        assert len(placed) == len(opt_in.pods)
        for one in placed:
            has_its_keys(one)
        on_cards = [{s.dialect for s in shares} for shares in shares_on(placed).values()]
        assert sorted(name for (name,) in on_cards) == OPT_IN


async def test_node_and_grant_become_visible_in_one_write(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes()
        async with cluster.admin.watch(cluster.pods_path()) as watch:
            limits = {"volcano.sh/gpu-memory": "1024"}
            await cluster.pod("p", limits, schedulerName="volcano")
            while True:
                _, pod = await watch.next()
                if pod["spec"].get("nodeName"):
                    break
                assert "tessera.dev/grant" not in pod["metadata"].get("annotations", {})
            has_its_keys(pod)
            assert "volcano.sh/gpu-index" in pod["metadata"]["annotations"]


async def test_a_pod_that_can_never_run_is_refused_by_the_api_server_in_words(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        for body in documents(EXAMPLES / "refused" / "rejected.yaml"):
            if body["kind"] != "Pod":
                continue
            body["metadata"]["namespace"] = cluster.own
            answer = await cluster.admin.post(cluster.pods_path(), body)
            assert answer.status in {403, 422}, answer
            assert "spec.containers[" in answer.body["message"]


async def test_a_node_that_is_only_described_by_others_is_used(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        name = f"{cluster.own}-counted"
        amounts = {"volcano.sh/gpu-memory": "32000", "volcano.sh/gpu-number": "2"}
        await cluster.make("/api/v1/nodes", a_node(name, capacity=amounts))
        await cluster.pod("p", {"volcano.sh/gpu-memory": "1024"}, schedulerName="volcano")
        [pod] = await cluster.until_bound("p")
        assert pod["spec"]["nodeName"] == name
