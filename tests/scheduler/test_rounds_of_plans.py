"""Rounds of plans go on after each failure, and say why once a minute."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import ApiForbidden
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.plans.plan_store import PlanStore
from tessera_scheduler.plan_rounds import PUT_OFF_AGAIN_S, ROUND_S, run_rounds
from tessera_schema.plans import PlanKind
from tessera_testing.kube import FakeKube, a_store

pytestmark = pytest.mark.looptime
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLANS_DEFINITION: Final = (
    Path(__file__).parents[2] / "deploy/kustomize/base/crds/rebalanceplans.yaml"
)


class Rounds:
    """Rounds that the API server may refuse."""

    def __init__(self) -> None:
        self.count = 0
        self.refusal = ""

    async def __call__(self, group: asyncio.TaskGroup) -> None:
        del group
        self.count += 1
        if self.refusal:
            raise ApiForbidden(403, "Forbidden", self.refusal)


async def run(rounds: Rounds, seconds: float) -> None:
    store = a_store(SystemClock())
    body = msgspec.json.encode(msgspec.yaml.decode(PLANS_DEFINITION.read_bytes()))
    assert store.handle("POST", CRDS, body=body).code == 201
    kube = FakeKube(store)
    try:
        async with asyncio.timeout(seconds):
            await run_rounds(kube, PlanStore(kube, (PlanKind.PREEMPT,)), KubeSettings(), rounds)
    except TimeoutError:
        pass


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.tessera_fields["why"]  # type: ignore[attr-defined]
        for record in caplog.records if record.message == "plans are put off"
    ]  # fmt: skip


async def test_the_same_reason_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds()
    rounds.refusal = "plans: you may not write them"
    await run(rounds, 2.5 * PUT_OFF_AGAIN_S)
    assert rounds.count >= 2 * PUT_OFF_AGAIN_S / ROUND_S
    assert len(said(caplog)) == 3
    assert "you may not write them" in said(caplog)[0]


async def test_another_reason_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    class Changing(Rounds):
        async def __call__(self, group: asyncio.TaskGroup) -> None:
            self.refusal = {3: "one", 4: "one", 5: "another", 7: "another"}.get(self.count, "")
            await super().__call__(group)

    await run(Changing(), 15 * ROUND_S)
    assert len(said(caplog)) == 3, "one; another; and the same after a round that succeeded"
