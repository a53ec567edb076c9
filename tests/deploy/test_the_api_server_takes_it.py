"""What a real API server says of the manifests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.client import Json
from tests.deploy.installed import Installed, apply

QUOTAS = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"


async def test_applying_it_again_is_harmless(installed: Installed) -> None:
    said = await asyncio.to_thread(apply, installed.plane, "dev")
    assert "daemonset.apps/tessera-agent-nvidia" in said


async def test_the_overlay_for_one_node_is_taken_too(installed: Installed) -> None:
    said = await asyncio.to_thread(apply, installed.plane, "single-node", "--dry-run=server")
    assert "deployment.apps/tessera-scheduler" in said


def a_quota(name: str, spec: Json) -> Json:
    return {
        "apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota",
        "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


async def test_a_quota_is_stored_as_it_is_written(installed: Installed) -> None:
    spec: dict[str, Any] = {
        "vendor": "nvidia", "namespaces": ["team-a", "team-b"], "pool": "research", "lends": False,
        "hard": {"memory": "160Gi", "cores": 400, "cards": "8", "models": {"A100": 2, "T4": "0"}},
        "guaranteed": {"memory": "80Gi", "cores": "200", "cards": 4},
        "throttle": {"afterSeconds": 60, "coresPercent": 12.5},
    }  # fmt: skip
    async with installed.clients() as clients:
        admin = clients["admin"]
        made = (await admin.post(QUOTAS, a_quota("whole", spec))).done
        reported = await admin.patch(f"{QUOTAS}/whole/status", {"status": {"used": {"cards": 3}}})
        await admin.delete(f"{QUOTAS}/whole")
    assert made["spec"] == spec
    assert reported.done["status"] == {"used": {"cards": 3}}


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"hard": {"memory": "much"}}, "spec.hard.memory"),
        ({"hard": {"cards": -1}}, "spec.hard.cards"),
        ({"hard": {"cores": "10 %"}}, "spec.hard.cores"),
        ({"hard": {"models": {"A100": "x"}}}, "spec.hard.models"),
        ({"guaranteed": {"memory": "much"}}, "spec.guaranteed.memory"),
        ({"namespaces": "team-a"}, "spec.namespaces"),
        ({"lends": "no"}, "spec.lends"),
        ({"throttle": {"afterSeconds": -1}}, "spec.throttle.afterSeconds"),
        ({"throttle": {"coresPercent": 0}}, "spec.throttle.coresPercent"),
    ],
)
async def test_a_quota_that_makes_no_sense_is_refused(
    installed: Installed, spec: Json, what: str
) -> None:
    async with installed.clients() as clients:
        answer = await clients["admin"].post(QUOTAS, a_quota("bad", spec))
    assert what in answer.refused(422, "Invalid")


async def test_a_field_that_nobody_reads_is_stored_for_the_status_to_say(
    installed: Installed,
) -> None:
    spec = {"hard": {"cards": 1, "gpus": 1}, "lend": False}
    async with installed.clients() as clients:
        made = (await clients["admin"].post(QUOTAS, a_quota("odd", spec))).done
        await clients["admin"].delete(f"{QUOTAS}/odd")
    assert made["spec"] == spec
