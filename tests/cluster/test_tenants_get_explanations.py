"""Somebody with the role `edit` in one namespace, and nothing else, asks why its pod waits."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

from tessera_schema.endpoints.visibility import PLURAL, ROOT
from tests.cli.alone import COMMAND_ALONE, packages_alone
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_share, a_share_pod
from tests.cluster.tenants import REGISTERED, a_home, a_tenant, reached
from tests.contract.kubebin import kube_bin


async def tessera(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as that user types it: installed without extras, with a home, and nothing else
    in the environment."""
    packages = home / "packages"
    if not packages.exists():
        packages.mkdir()
        packages_alone(packages)
    return await asyncio.to_thread(
        subprocess.run, [*COMMAND_ALONE, *arguments],
        capture_output=True, text=True, timeout=60, check=False,
        env={"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(packages)},
    )  # fmt: skip


async def test_role_edit_sees_why_and_what_would_help(
    open_cluster: OpenCluster, tmp_path: Path
) -> None:
    async with open_cluster(more=REGISTERED) as cluster, a_tenant(cluster) as tenant:
        await reached(cluster)
        first, second = await cluster.nodes(2, mib=20000)
        other = f"{cluster.own}-b"
        await cluster.namespace(other)
        body = a_share_pod("infer-3", a_share(15000))
        await cluster.make(cluster.pods_path(namespace=other), body)
        await cluster.until_bound("infer-3", namespace=other)
        await cluster.pod("train", a_share(12000))
        await cluster.until_bound("train")
        await cluster.pod("p", a_share(9000))
        path = f"{ROOT}/namespaces/{cluster.own}/{PLURAL}"

        async def waiting() -> bool:
            answer = await tenant.get(f"{path}/p")
            return answer.status == 200 and answer.body["verdict"] == "waiting"

        await cluster.until(waiting, "an explanation")
        answer = (await tenant.get(f"{path}/p", cards="true")).done
        nodes = {node["name"]: node for node in answer["nodes"]}
        assert set(nodes) == {first, second}
        held = {
            (holder.get("namespace", ""), holder.get("name", ""))
            for node in nodes.values() for card in node["cards"] for holder in card["holders"]
        }  # fmt: skip
        assert held == {("", ""), (cluster.own, "train")}
        assert "infer-3" not in str(answer)
        assert other not in str(answer)
        assert "the largest free part is 7.81 GiB on" in answer["advice"]
        assert "ask for at most" in answer["advice"]
        admin = (await cluster.admin.get(f"{path}/p", cards="true")).done
        assert "infer-3" in str(admin["nodes"])
        listed = (await tenant.get(path)).done
        assert [item["metadata"]["name"] for item in listed["items"]] == ["p"]

        elsewhere = await tenant.get(f"{ROOT}/namespaces/{other}/{PLURAL}/infer-3")
        assert (elsewhere.status, elsewhere.body["reason"]) == (403, "Forbidden")
        none = await tenant.get(f"{path}/nosuch")
        assert (none.status, none.body["message"]) == (404, 'pods "nosuch" not found')
        home = a_home(cluster, tmp_path)
        await by_the_command(cluster, home, other)
        await by_kubectl(cluster, home)


async def by_kubectl(cluster: RealCluster, home: Path) -> None:
    """And by kubectl, which knows nothing of the kind."""
    kubectl = (await asyncio.to_thread(kube_bin, "kubectl")) / "kubectl"
    for arguments, says in (
        (("get", "podexplanations"), "NAME   VERDICT   NODE   WHY"),
        (("get", "podexplanations"), "the largest free part is 7.81 GiB on"),
        (("get", "podexp", "p", "-o", "jsonpath={.verdict}"), "waiting"),
        (("api-resources", "--api-group=visibility.tessera.dev"), "PodExplanation"),
        (("auth", "can-i", "get", "podexplanations"), "yes"),
    ):
        done = await asyncio.to_thread(
            subprocess.run, [kubectl, *arguments], capture_output=True, text=True, timeout=60,
            check=False, env={"HOME": str(home), "PATH": os.defpath},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert says in done.stdout, done.stdout


async def by_the_command(cluster: RealCluster, home: Path, other: str) -> None:
    """The same from a shell."""
    done = await tessera(home, "explain", "pod/p", "--cards")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{cluster.own}/p (hami): waiting"
    assert "0/2 nodes have room: 2 CardInsufficientMemory" in done.stdout
    assert "what would help: the largest free part is 7.81 GiB on" in done.stdout
    assert any("15000 of 20000 MiB" in line for line in lines)
    assert any(line.strip().startswith(f"{cluster.own}/train: 12000 MiB") for line in lines)
    assert any(line.strip().startswith("a pod of another namespace: 15000") for line in lines)
    assert "infer-3" not in done.stdout
    admin = str(cluster.plane.control.kubeconfig)
    acting = "--kubeconfig", admin, "-n", cluster.own, "--as", "tenant"
    impersonated = await tessera(home, "explain", "p", "--cards", *acting)
    assert impersonated.stdout == done.stdout
    every = await tessera(home, "explain")
    assert every.stdout.splitlines()[1].startswith("p      waiting")
    whole = json.loads((await tessera(home, "explain", "p", "-o", "json")).stdout)
    assert whole["kind"] == "PodExplanation"
    for arguments, says in (
        (("p", "-n", other), f"you may not ask why pods of namespace {other} wait: one of "),
        (("nosuch",), f'pods "nosuch" not found in namespace {cluster.own}'),
        (("-A",), "you may not ask why pods of all namespaces wait"),
    ):
        refused = await tessera(home, "explain", *arguments)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert says in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
