"""`tessera migrate` compares what another system says of each node with what Tessera reads, names
what is in the way, and its commands move a node and give it back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.cluster import bound, node, pod, text
from tests.cli.conftest import Tessera
from tests.cli.installed_cluster import READER, InstalledCluster, a_daemonset, bare_cluster

Json = dict[str, Any]
DUMPS = Path(__file__).parent / "dumps"
HELD = "GPU-n1-0,NVIDIA,3000,30:;"
HAMI = "docker.io/projecthami/hami:v2.7.0"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.4"
VOLCANOS = "docker.io/volcanosh/volcano-vgpu-device-plugin:v1.11"
OPERATORS = {"nvidia.com/gpu.deploy.device-plugin": "true"}
HAMIS = a_daemonset("hami-device-plugin", "kube-system", HAMI, nodeSelector={"gpu": "on"})
WEBHOOK: Json = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "hami-webhook"}, "webhooks": [{"name": "vgpu.hami.io"}],
}  # fmt: skip


def labelled(labels: Json, **more: Any) -> Json:
    there = node(**more)
    there["metadata"]["labels"] = labels
    return there


def a_scheduler(migration: str) -> Json:
    env = [{"name": "TESSERA_BOOKS_MIGRATION", "value": migration}]
    labels = {
        "app.kubernetes.io/name": "tessera-scheduler", "app.kubernetes.io/part-of": "tessera",
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "tessera-scheduler", "namespace": "tessera-system", "labels": labels},
        "spec": {"template": {"spec": {"initContainers": [{"name": "scheduler", "env": env}]}}},
    }  # fmt: skip


def answer_of(tessera: Tessera, *objects: Json, nodes: tuple[str, ...] = ()) -> tuple[int, Json]:
    ran = tessera("migrate", "-f", "-", "-o", "json", *nodes, stdin=text(*objects))
    answer: Json = json.loads(ran.out)
    return ran.status, answer


@pytest.mark.parametrize(
    ("dialect", "image", "says", "status"),
    [
        ("hami", HAMI, {("hami", 2, 81920), ("hami", 2, 32768)}, 1),
        ("volcano", VOLCANOS, {("volcano", 2, 32768), ("volcano", 2, 81920)}, 0),
        ("koordinator", PLUGIN, {("koordinator", 4, 92160)}, 0),
        ("gpumanager", "tkestack/gpu-manager:v1", {("gpumanager", 4, 61440),
                                                  ("gpumanager", 2, 30720)}, 0),
        ("aliyun", "k8s-gpushare-plugin:v2", {("aliyun", 4, 61440), ("aliyun", 2, 30720)}, 0),
        ("replicas", PLUGIN, {("replicas", 2, 30720), ("replicas", 1, 81920),
                              ("replicas", 2, 163840)}, 1),
    ],
)  # fmt: skip
def test_nodes_of_each_system(
    tessera: Tessera, tmp_path: Path, dialect: str, image: str, says: set[Any], status: int
) -> None:
    plugin = tmp_path / "plugin.json"
    plugin.write_text(json.dumps(a_daemonset("plugin", "kube-system", image)))
    dump = str(DUMPS / f"{dialect}.json")
    ran = tessera("migrate", "-f", dump, "-f", str(plugin), "-o", "json")
    answer = json.loads(ran.out)
    assert (ran.status, answer["blocked"]) == (status, bool(status))
    nodes = answer["nodes"]
    assert {
        (said["system"], said["cards"], said["memory_mib"]) for one in nodes for said in one["says"]
    } == says
    for one in nodes:
        assert one["plugins"] == ["kube-system/plugin"]
        assert [(s["cards"], s["memory_mib"]) for s in one["says"]] == [
            amounts for amounts in [(one["cards"], one["memory_mib"])] if one["cards"]
        ]
        assert bool(one["commands"]) is (one["state"] == "ready") is (not one["blockers"])
        assert one["back"]
    assert sum(len(one["pods"]) for one in nodes) > 0


def test_pods_without_cards_and_cards_that_are_full_are_named(tessera: Tessera) -> None:
    lost = bound("lost", "GPU-gone,NVIDIA,3000,30:;")
    guessed = pod("guessed")
    guessed["spec"]["nodeName"] = "n1"
    guessed["status"] = {"phase": "Running"}
    there = labelled({"gpu": "on"})
    over = bound("over", "GPU-n1-1,NVIDIA,20000,30:;")
    status, answer = answer_of(tessera, there, HAMIS, bound("a", HELD), lost, guessed, over)
    (one,) = answer["nodes"]
    assert (status, one["state"], one["commands"]) == (1, "blocked", [])
    assert one["pods"] == ["default/a", "default/guessed", "default/lost", "default/over"]
    assert [b.rpartition(": ")[2] for b in one["blockers"]] == [
        f"kubectl -n default delete pod {name}" for name in ("guessed", "lost")
    ]
    assert "pods hold 20000 of 16384 MiB" in one["differences"][-1]


def test_a_card_that_only_a_pod_names_is_in_the_way(tessera: Tessera) -> None:
    grant = json.loads(
        tessera("place", "-f", "-", "-o", "json", stdin=text(node(), pod("a", uid="u1"))).out
    )
    (planned,) = grant["pods"]
    placed = pod("a", uid="u1", annotations=planned["annotations"])
    placed["spec"]["nodeName"] = "n1"
    placed["status"] = {"phase": "Running"}
    bare = labelled({"gpu": "on"}, cards=0)
    status, answer = answer_of(tessera, bare, HAMIS, placed)
    (one,) = answer["nodes"]
    assert (status, one["state"]) == (1, "blocked")
    assert one["blockers"][0].startswith("default/a: the node does not publish the card GPU-n1-")


def test_cards_that_nobody_describes_are_in_the_way(tessera: Tessera) -> None:
    there = labelled({"gpu": "on"}, cards=0, capacity={"nvidia.com/gpu": "8"})
    status, answer = answer_of(tessera, there, HAMIS)
    (one,) = answer["nodes"]
    assert (status, one["state"], one["cards"]) == (1, "blocked", 0)
    assert "nothing on the node says which nvidia cards these are" in one["blockers"][0]


def test_the_component_migration_has_to_be_there(tessera: Tessera) -> None:
    there = (labelled({"gpu": "on"}), HAMIS, bound("a", HELD))
    status, answer = answer_of(tessera, *there)
    assert status == 0
    assert "component migration" in answer["before"][0]
    status, answer = answer_of(tessera, *there, a_scheduler("false"))
    assert (status, answer["before"]) == (1, [])
    assert "does not count pods that another one placed (default/a)" in answer["blockers"][0]
    status, answer = answer_of(tessera, *there, a_scheduler("true"))
    assert (status, answer["blockers"]) == (0, [])


CONF = 'actions: "enqueue, allocate, preempt"\ntiers:\n- plugins:\n  - name: gang\n'


def volcanos(conf: str) -> Json:
    """The ConfigMap of its scheduler."""
    meta = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    data = {"volcano-scheduler.conf": conf}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def test_what_volcanos_scheduler_did_has_a_switch_here(tessera: Tessera) -> None:
    there = (labelled({"gpu": "on"}), HAMIS, volcanos(CONF))
    status, answer = answer_of(tessera, *there)
    assert answer["settings"] == [
        "volcano-scheduler.conf has gang: gangs start whole with the component gangs",
        "volcano-scheduler.conf has preempt: pods are evicted for those of higher priority with "
        "the component preemption (TESSERA_PREEMPTION_MODE=on)",
    ]
    assert status == answer_of(tessera, *there[:-1])[0]
    ran = tessera("migrate", "-f", "-", stdin=text(*there))
    assert "\nvolcano-scheduler.conf has preempt: " in ran.out


@pytest.mark.parametrize("conf", ["tiers: [", "tiers: 1", "- a"])
def test_a_configuration_of_volcanos_that_cannot_be_read_is_said(
    tessera: Tessera, conf: str
) -> None:
    _, answer = answer_of(tessera, labelled({"gpu": "on"}), HAMIS, volcanos(conf))
    (said,) = answer["settings"]
    assert said.startswith("ConfigMap volcano-system/volcano-scheduler-configmap: ")


def test_without_daemonsets_nothing_is_called_ready(tessera: Tessera) -> None:
    status, answer = answer_of(tessera, node())
    assert status == 1
    assert "no DaemonSet was read" in answer["blockers"][0]


def test_the_webhook_of_the_other_system_goes_last(tessera: Tessera) -> None:
    before = (labelled({"gpu": "on"}), HAMIS, WEBHOOK, a_scheduler("true"))
    status, answer = answer_of(tessera, *before)
    assert (status, answer["nodes"][0]["state"]) == (0, "ready")
    assert answer["after"] == ["kubectl delete mutatingwebhookconfiguration hami-webhook"]
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node()))
    (card, _) = json.loads(ran.out)["nodes"][0]["cards"]
    published = {"version": 1, "cards": [{
        "id": card["id"], "index": 0, "vendor": "nvidia", "memory_bytes": 16384 << 20, "slots": 10,
    }]}  # fmt: skip
    moved = labelled(
        {"tessera.dev/cards": "nvidia"}, cards=0,
        annotations={"cards.tessera.dev/nvidia": json.dumps(published)},
    )  # fmt: skip
    status, answer = answer_of(tessera, moved, HAMIS, WEBHOOK, a_scheduler("true"))
    assert (status, answer["nodes"][0]["state"]) == (1, "moved")
    assert "hami-webhook of HAMi gives pods" in answer["blockers"][0]


def test_forms_and_statuses(tessera: Tessera) -> None:
    there = text(labelled({"gpu": "on"}), node("cpu", cards=0), HAMIS)
    ran = tessera("migrate", "-f", "-", stdin=there)
    assert ran.status == 0
    assert "kubectl label nodes n1 tessera.dev/cards=nvidia gpu- --overwrite" in ran.out
    assert "kubectl label nodes n1 gpu=on tessera.dev/cards- --overwrite" in ran.out
    assert ran.out.rstrip().endswith("1 ready")
    assert "n1 back:" in tessera("migrate", "-f", "-", "-o", "wide", stdin=there).out
    assert tessera("migrate", "-f", "-", "-o", "name", stdin=there).out == "n1\n"
    as_yaml = yaml.safe_load(tessera("migrate", "-f", "-", "-o", "yaml", stdin=there).out)
    assert as_yaml == answer_of(tessera, labelled({"gpu": "on"}), node("cpu", cards=0), HAMIS)[1]
    ran = tessera("migrate", "nobody", "-f", "-", stdin=there)
    assert (ran.status, ran.out) == (1, "")
    assert "node nobody: there is none of that name" in ran.err
    ran = tessera("migrate", "-f", "-", stdin=text(node("cpu", cards=0)))
    assert (ran.status, ran.out.count("\n")) == (0, 1)


def test_a_wrong_call_is_a_status_of_its_own(tessera: Tessera) -> None:
    assert tessera("migrate", "-o", "picture").status == 2
    ran = tessera("migrate", "-f", "-", "--context", "mine", stdin=text(node()))
    assert (ran.status, ran.out) == (2, "")
    assert "--context: a dump is read" in ran.err


SYSTEMS: tuple[tuple[str, dict[str, str], str], ...] = (
    (HAMI, {"gpu": "on"}, ""), (VOLCANOS, {}, ""), (PLUGIN, {}, ""),
    (PLUGIN, OPERATORS, "ClusterPolicy"),
)  # fmt: skip
"""Image, labels of its nodes, owner."""


@pytest.mark.timeout(60)
async def test_its_commands_move_a_node_and_give_it_back(tessera: Tessera, tmp_path: Path) -> None:
    async with bare_cluster(tmp_path) as cluster:
        for number, (image, selector, owner) in enumerate(SYSTEMS):
            labels = {"tessera.dev/cards": None, **selector}
            await cluster.patch("/api/v1/nodes/gpu-1", {"metadata": {"labels": labels}})
            there = a_daemonset(f"plugin-{number}", "kube-system", image, nodeSelector=selector)
            if owner:
                there["metadata"]["ownerReferences"] = [
                    {"apiVersion": "nvidia.com/v1", "kind": owner, "name": "p", "uid": "1"}
                ]
            await cluster.create(there)
            one = await of_cluster(tessera, cluster)
            assert one["plugins"] == [f"kube-system/plugin-{number}"]
            for command in filter(is_about_the_cluster, one["commands"]):
                await cluster.run(command)
            moved = await of_cluster(tessera, cluster)
            assert moved["plugins"] == []
            for command in filter(is_about_the_cluster, moved["back"]):
                await cluster.run(command)
            assert (await of_cluster(tessera, cluster))["plugins"] == one["plugins"]
            await cluster.delete(f"/apis/apps/v1/namespaces/kube-system/daemonsets/plugin-{number}")


def is_about_the_cluster(command: str) -> bool:
    """No shell of the node, and no program but kubectl."""
    return command.startswith("kubectl ") and " debug " not in command


async def of_cluster(tessera: Tessera, cluster: InstalledCluster) -> Json:
    """What is said of the node, which registers a card as HAMi's plugin does."""
    notes = node("gpu-1")["metadata"]["annotations"]
    await cluster.patch("/api/v1/nodes/gpu-1", {"metadata": {"annotations": notes}})
    ran = await asyncio.to_thread(
        tessera, "migrate", "gpu-1", "-o", "json", f"--kubeconfig={cluster.server.kubeconfig}"
    )
    (one,) = json.loads(ran.out)["nodes"]
    return dict(one)


@pytest.mark.timeout(60)
async def test_a_cluster_says_what_its_dump_says(tessera: Tessera, tmp_path: Path) -> None:
    async with bare_cluster(tmp_path) as cluster:
        labels, notes = {"gpu": "on"}, node("gpu-1")["metadata"]["annotations"]
        await cluster.patch(
            "/api/v1/nodes/gpu-1", {"metadata": {"labels": labels, "annotations": notes}}
        )
        holder = bound("a", "GPU-gpu-1-0,NVIDIA,3000,30:;", on="gpu-1")
        holder["spec"]["containers"][0]["image"] = "main"
        await cluster.create(HAMIS)
        volcano = {"metadata": {"name": "volcano-system"}}
        (await cluster.admin.post("/api/v1/namespaces", volcano)).done  # noqa: B018  (checks)
        maps = "/api/v1/namespaces/volcano-system/configmaps"
        (await cluster.admin.post(maps, volcanos(CONF))).done  # noqa: B018  (checks)
        (await cluster.admin.post("/api/v1/namespaces/default/pods", holder)).done  # noqa: B018  (checks)
        config = f"--kubeconfig={cluster.server.kubeconfig}"
        ran = await asyncio.to_thread(tessera, "migrate", config, "-o", "json")
        lists = [
            (await cluster.admin.get(path)).done
            for path in ("/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/daemonsets", maps)
        ]
        kinds = ("Node", "Pod", "DaemonSet", "ConfigMap")
        dump = [
            {"apiVersion": found["apiVersion"], "kind": kind, **item}
            for kind, found in zip(kinds, lists, strict=True)
            for item in found["items"]
        ]
        status, answer = await asyncio.to_thread(answer_of, tessera, *dump)
        assert (ran.status, json.loads(ran.out)) == (status, answer)
        (one,) = answer["nodes"]
        assert (one["name"], one["plugins"]) == ("gpu-1", ["kube-system/hami-device-plugin"])
        assert (one["pods"], one["held_mib"]) == (["default/a"], 3000)
        assert len(answer["settings"]) == 2
        refused = await asyncio.to_thread(
            tessera, "migrate", f"--kubeconfig={cluster.config_of(READER)}"
        )
        assert (refused.status, refused.out) == (1, "")
        assert "namespaces" in refused.err
