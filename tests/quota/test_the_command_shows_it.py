"""`tessera quota`: the same numbers, for people and for programs."""

import asyncio
import json

import pytest

from tessera_cli import quota, screen
from tessera_cli.__main__ import run
from tests.quota.cluster import Cluster, monitoring, settings


async def listed(cluster: Cluster, namespace: str = "") -> list[quota.QuotaRow]:
    return await quota.read(cluster.kube, namespace)


@pytest.mark.looptime
async def test_a_row_for_each_quota_and_what_is_to_be_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 1, "memory": "64Gi"}}, "small")
    cluster.quota({"guaranteed": {"cards": 4}}, "own", "team-b")
    for n in range(2):
        cluster.bound(f"p{n}", card=n, mib=4096)
    cluster.waiting("w", mib=1024)
    async with monitoring(cluster, settings(after_s=0)):
        await asyncio.sleep(30)
    found = await listed(cluster)
    quota.show(screen.console(sized=False), found)
    text = capsys.readouterr().out
    assert "default/small  Throttled  8Gi of 64Gi  50     2 of 1" in text
    assert "team-b/own" in text
    assert "0 (4 guaranteed)" in text
    assert "AcceleratorQuota small allows 1 cards, 2 are used" in text
    assert "its containers are to get 50 percent of their cores" in text
    assert "1 pods wait for 1Gi, 0 % and 1 cards" in text
    whole = json.loads(quota.document(found))
    assert [q["name"] for q in whole["quotas"]] == ["small", "own"]
    assert whole["quotas"][0]["status"]["used"]["cards"] == 2
    assert [q.name for q in await listed(cluster, "team-b")] == ["team-b/own"]


@pytest.mark.looptime
async def test_without_the_service_it_says_that_nobody_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 1}})
    quota.show(screen.console(sized=False), await listed(cluster))
    assert "default/q: nobody counts: the quota service does not run" in capsys.readouterr().out


@pytest.mark.looptime
async def test_without_quotas_or_their_definition_it_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quota.show(screen.console(sized=False), await listed(Cluster()))
    assert capsys.readouterr().out == "no quotas (-A shows those of all namespaces)\n"
    with pytest.raises(quota.QuotasUnreadable, match="not installed"):
        await listed(Cluster(defined=False))


def test_a_server_that_is_not_there_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    assert run(["quota", "--kubeconfig", f"{tmp_path}/none"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("tessera: error: ")
    assert len(said.err.splitlines()) == 1
