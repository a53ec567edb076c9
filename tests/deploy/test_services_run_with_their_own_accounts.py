"""The services as processes, with no other permissions than their ServiceAccounts', on a real API
server: they come up, do all that they write there, and are refused nothing. One dialect has names
of the cluster's own, which all of them must know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from tessera_schema.annotation_keys import WAKE_KEY
from tessera_schema.grants import GRANT_KEY, decode_grant
from tessera_schema.resizes import RESIZE_KEY, Resize, ShareChange, encode_resize
from tests.contract.client import Client, Json
from tests.contract.objects import a_pod
from tests.deploy.installed import NAMESPACE, PODS, Installed
from tests.deploy.processes import (
    PATIENCE_S,
    VENDOR,
    Service,
    a_scheduler,
    nothing_was_forbidden,
    running,
)

NODE = "one"
NAMES: Final = {
    "count": "example.org/mt", "memory": "example.org/mt-memory", "core": "example.org/mt-core",
}  # fmt: skip
CAPACITY: Final = {NAMES["core"]: "32", NAMES["memory"]: "192"}
"""Two cards."""
SHARE: Final = {NAMES["count"]: "1", NAMES["memory"]: "16", NAMES["core"]: "8"}
MEMORY: Final = 16 * 512 << 20
TENTHS: Final = {"limits.example.org/mt-memory": "160"}
OWN_QUOTAS: Final = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"
APISERVICE: Final = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.tessera.dev"
QUOTAS: Final = "/api/v1/namespaces/default/resourcequotas"
MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"


async def until(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    """What it found, once it finds something."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if found := await look():
                    return found
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(what) from None


async def node(admin: Client) -> Json:
    return (await admin.get(f"/api/v1/nodes/{NODE}")).done


async def pod(admin: Client, name: str) -> dict[str, str]:
    """Its annotations."""
    metadata = (await admin.get(f"{PODS}/{name}")).done["metadata"]
    return dict(metadata.get("annotations", {}))


async def answer_of(scheduler: Service, verb: str, body: Json) -> Json:
    """The extender's answer, as kube-scheduler asks."""
    url = f"{await scheduler.url('extender')}/{verb}"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        assert answer.status == 200, await answer.text()
        return dict(await answer.json())


async def filtered(scheduler: Service, made: Json) -> list[str]:
    answer = await answer_of(scheduler, "filter", {"Pod": made, "NodeNames": [NODE]})
    return list(answer["NodeNames"] or ())


async def place(scheduler: Service, made: Json) -> None:
    meta = made["metadata"]

    async def there() -> list[str]:
        return await filtered(scheduler, made)

    await until(there, "the scheduler knows the node's cards")
    named = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"]}
    assert (await answer_of(scheduler, "bind", {**named, "Node": NODE}))["Error"] == ""


async def metrics(service: Service, path: str = "/metrics") -> str:
    url = f"{await service.url()}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def the_agent_publishes_and_advertises(admin: Client, agent: Service) -> None:
    await agent.ready()

    async def published() -> bool:
        notes = (await node(admin))["metadata"].get("annotations", {})
        return VENDOR in notes.get(f"cards.tessera.dev/{VENDOR}", "")

    async def advertised() -> bool:
        return NAMES["count"] in (await node(admin))["status"]["capacity"]

    await until(published, "cards that are counted under names of one's own")
    await until(advertised, "the name that nobody else advertises")
    assert "mthreads.com/vgpu" not in (await node(admin))["status"]["capacity"]
    nothing_was_forbidden(agent)


async def the_scheduler_grants_and_resizes(
    clients: Mapping[str, Client], scheduler: Service
) -> None:
    admin = clients["admin"]
    made = (await admin.post(PODS, a_pod("asks", limits=SHARE))).done
    assert made["spec"]["schedulerName"] == "tessera-scheduler"
    await place(scheduler, made)
    grant = decode_grant((await pod(admin, "asks"))[GRANT_KEY])
    (share,) = grant.shares
    assert (share.memory_bytes, share.cores_percent) == (MEMORY, 50)
    change = ShareChange(container=share.container, card=share.card, cores_percent=25)
    ask: Json = {
        "metadata": {"annotations": {RESIZE_KEY: encode_resize(Resize(changes=(change,)))}}
    }
    (await clients["rebalancer"].patch(f"{PODS}/asks", ask)).done  # noqa: B018  (checks)

    async def answered() -> bool:
        return RESIZE_KEY not in await pod(admin, "asks")

    await until(answered, "an answer to a resize")


async def the_scheduler_registers_its_api(admin: Client) -> None:
    async def registered() -> bool:
        found = await admin.get(APISERVICE)
        return found.status == 200 and bool(found.body["spec"].get("caBundle"))

    await until(registered, "the APIService, with the authority of its certificate")


async def the_scheduler_wakes_who_waits(admin: Client, scheduler: Service) -> None:
    """A quota is raised, which kube-scheduler does not see."""
    tight: Json = {"metadata": {"name": "tight"}, "spec": {"hard": {"cards": 1}}}
    kind = {"apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota"}
    (await admin.post(OWN_QUOTAS, {**kind, **tight})).done  # noqa: B018  (checks)
    made = (await admin.post(PODS, a_pod("waits", limits=SHARE))).done

    async def blocked() -> bool:
        return not await filtered(scheduler, made)

    await until(blocked, "the quota in force")
    before = (await node(admin))["metadata"]["annotations"].get(WAKE_KEY)
    raised: Json = {"spec": {"hard": {"cards": 9}}}
    (await admin.patch(f"{OWN_QUOTAS}/tight", raised)).done  # noqa: B018  (checks)

    async def woken() -> bool:
        return bool((await node(admin))["metadata"]["annotations"].get(WAKE_KEY) != before)

    await until(woken, "the annotation that wakes")


async def the_monitor_counts(admin: Client, quota: Service) -> None:
    await quota.ready()

    async def evaluated() -> Any:
        return (await admin.get(f"{OWN_QUOTAS}/tight")).done.get("status", {}).get("used")

    async def listed() -> bool:
        rows = [
            row for row in (await metrics(quota, "/hami/metrics")).splitlines()
            if row.startswith("hami_resource_quota_used{") and f'"{NAMES["memory"]}"' in row
        ]  # fmt: skip
        return [float(row.split()[-1]) for row in rows] == [MEMORY >> 20]

    used = await until(evaluated, "a status on the quota")
    assert used["cards"] == 1
    await until(listed, "a ResourceQuota under a name of one's own")
    nothing_was_forbidden(quota)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_they_do_their_work_and_are_refused_nothing(
    installed: Installed, tmp_path: Path
) -> None:
    names = tmp_path / "dialects.yaml"
    names.write_text(yaml.safe_dump({VENDOR: NAMES}))
    all_know = {"TESSERA_DIALECTS_FILE": str(names)}
    agents = {
        **all_know, "TESSERA_NODE": NODE, "TESSERA_FOLDER": str(tmp_path / "files"),
        "TESSERA_NRI_SOCKET": str(tmp_path / "no-runtime"),
        "TESSERA_BUS_PASSWORD_FILE": str(tmp_path / "none"),
    }  # fmt: skip
    async with installed.clients() as clients:
        admin = clients["admin"]
        capacity: Json = {"status": {"capacity": CAPACITY}}
        (await admin.patch(f"/api/v1/nodes/{NODE}/status", capacity)).done  # noqa: B018  (checks)
        named: Json = {"metadata": {"name": "named"}, "spec": {"hard": TENTHS}}
        (await admin.post(QUOTAS, named)).done  # noqa: B018  (checks)
        foreign: Json = {"metadata": {"name": "gpuquota"}, "data": {"gpu_quota": "{}"}}
        (await admin.post(MAPS, foreign)).done  # noqa: B018  (checks)
        try:
            async with (
                a_scheduler(installed, tmp_path / "scheduler", all_know) as scheduler,
                running(installed, "agent", tmp_path / "agent", agents) as agent,
            ):
                await scheduler.ready()
                await the_agent_publishes_and_advertises(admin, agent)
                await the_scheduler_registers_its_api(admin)
                await the_scheduler_grants_and_resizes(clients, scheduler)
                await the_scheduler_wakes_who_waits(admin, scheduler)
                async with running(installed, "quota", tmp_path / "quota", all_know) as quota:
                    await the_monitor_counts(admin, quota)
                async with running(installed, "rebalancer", tmp_path / "r", all_know) as rebalancer:
                    await rebalancer.ready()
                    nothing_was_forbidden(rebalancer)
                nothing_was_forbidden(scheduler)
        finally:
            for path in (APISERVICE, f"{OWN_QUOTAS}/tight", f"{QUOTAS}/named", f"{MAPS}/gpuquota"):
                await admin.delete(path)
            for name in ("asks", "waits"):
                await admin.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
        keys = f"/api/v1/namespaces/{NAMESPACE}"
        made = (await admin.get(f"{keys}/configmaps/tessera-grant-keys")).done
        assert made["data"]
        for name in ("tessera-grant-signing", "tessera-webhook-certificate"):
            assert json.dumps((await admin.get(f"{keys}/secrets/{name}")).done["data"])
