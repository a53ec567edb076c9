"""`tessera check` as a user calls it: the table, the document, names, and the exit status."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from tessera_cli.check.findings_table import show
from tessera_cli.screen import console
from tessera_core.preflight.findings import Finding, FindingState
from tessera_core.preflight.snapshot import InstallationSnapshot
from tessera_core.registry.registry import load
from tessera_core.registry.vendor_monitoring import monitoring
from tests.cli.conftest import Tessera
from tests.cli.installed_cluster import CARD_NODE, InstalledCluster, installed_cluster

pytestmark = pytest.mark.timeout(60)


def config(cluster: InstalledCluster) -> str:
    return f"--kubeconfig={cluster.server.kubeconfig}"


async def test_it_is_quiet_where_all_is_well(tmp_path: Path, tessera: Tessera) -> None:
    async with installed_cluster(tmp_path) as cluster:
        ran = await asyncio.to_thread(tessera, "check", config(cluster))
        assert (ran.status, ran.out, ran.err) == (0, "25 ok\n", "")
        whole = await asyncio.to_thread(tessera, "check", config(cluster), "--all")
        assert (whole.status, whole.err) == (0, "")
        assert "nodes/nri" in whole.out
        one = await asyncio.to_thread(tessera, "check", config(cluster), "--node", CARD_NODE)
        assert (one.status, one.out) == (0, "12 ok\n")


async def test_what_failed_has_its_remedy(tmp_path: Path, tessera: Tessera) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await cluster.publish("the container runtime does not ask: nothing listens")
        ran = await asyncio.to_thread(tessera, "check", config(cluster))
        assert (ran.status, ran.err) == (1, "")
        head, _, row, *remedy, summary = filter(None, ran.out.splitlines())
        assert head.split() == ["State", "Check", "Found"]
        assert row.split()[:3] == ["failed", "nodes/nri", f"{CARD_NODE}:"]
        assert "".join(remedy).startswith("nri: in /etc/containerd/config.toml")
        assert summary == "24 ok, 1 failed"
        names = await asyncio.to_thread(tessera, "check", config(cluster), "-o", "name")
        assert (names.status, names.out) == (1, "nri\n")
        answer = json.loads(
            (await asyncio.to_thread(tessera, "check", config(cluster), "-o", "json")).out
        )
        assert (answer["installed"], answer["failed"], len(answer["findings"])) == (True, True, 25)
        (nri,) = [one for one in answer["findings"] if one["state"] == "failed"]
        assert list(nri) == ["group", "name", "state", "found", "remedy"]
        same = await asyncio.to_thread(tessera, "check", config(cluster), "-o", "yaml")
        assert yaml.safe_load(same.out) == answer
        other = await asyncio.to_thread(tessera, "check", config(cluster), "--node", "cpu-1")
        assert other.status == 1
        assert "no node has a label by which an agent runs there" in other.out


async def test_a_node_that_is_not_there(tmp_path: Path, tessera: Tessera) -> None:
    async with installed_cluster(tmp_path) as cluster:
        ran = await asyncio.to_thread(tessera, "check", config(cluster), "--node", "gpu-9")
        assert (ran.status, ran.out) == (1, "")
        assert ran.err == "tessera: error: node gpu-9: there is none of that name\n"


def test_of_many_findings_of_one_check_five_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    registry = load()
    cluster = InstallationSnapshot(registry=registry, vendors=monitoring(registry))
    found = [
        Finding(group="nodes", name="agents", state=FindingState.FAILED, found=f"gpu-{i}", remedy=r)
        for i, r in enumerate(["a"] * 10 + ["b"] * 10)
    ]
    show(console(sized=False), cluster, found, every=False)
    *rows, more, remedy, summary = filter(None, capsys.readouterr().out.splitlines())
    assert [row.split()[-1] for row in rows[2:]] == [f"gpu-{i}" for i in range(5)]
    assert more == "agents: 15 more (-o json has all)"
    assert remedy == "agents: a"
    assert summary == "20 failed; Tessera is not installed yet"


def test_a_wrong_call_is_2(tessera: Tessera) -> None:
    for arguments in (["--wrong"], ["-o", "text"], ["word"]):
        ran = tessera("check", *arguments)
        assert (ran.status, ran.out) == (2, "")
        assert "usage: tessera check" in ran.err
    assert tessera("quota", "--wrong").status == 1


def test_a_cluster_that_does_not_answer_is_one_sentence(tmp_path: Path, tessera: Tessera) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }))  # fmt: skip
    ran = tessera("check", "--kubeconfig", str(file))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("tessera: error: ")
    assert "internal" not in ran.err
    assert ran.err.count("\n") == 1
