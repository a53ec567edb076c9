"""A round of all quotas costs as much as there are quotas, namespaces and pods, never their
product. Counted in bytecodes of the interpreter, so that the machine's speed does not matter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from types import FrameType
from typing import Any

import pytest

from tessera_core.quota import accounting, allowance, borrowing, status
from tessera_quota import evaluation, group_use, idle_grants, quota_state, usage
from tessera_schema import quotas
from tessera_schema.messages.device_reports import CardUse
from tests.quota.cluster import Cluster, monitoring, settings, until

pytestmark = pytest.mark.looptime

COUNTED = frozenset(
    module.__file__
    for module in (
        accounting, allowance, borrowing, status, evaluation, group_use, idle_grants, quota_state,
        usage, quotas,
    )
)  # fmt: skip
OWN: dict[str, Any] = {"hard": {"memory": "64Gi", "cards": 4}}
ALL: dict[str, Any] = {**OWN, "namespaceSelector": {}}
SHARED: dict[str, Any] = {**OWN, "guaranteed": {"cards": 2}}


async def bytecodes(work: Awaitable[object]) -> int:
    """So many are run in the modules that evaluate quotas."""
    count = 0

    def local(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "opcode"
        return local

    def traced(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in COUNTED:
            return None
        frame.f_trace_opcodes = True
        return local

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        await work
    finally:
        sys.settrace(before)
    return count


async def a_round(spec: dict[str, Any], namespaces: int) -> int:
    """What a round costs with so many namespaces, a quota in each, and pods that run, wait and
    rest."""
    cluster = Cluster()
    uses = []
    for n in range(namespaces):
        name = f"team-{n}"
        cluster.quota(spec, namespace=name)
        uid = cluster.bound("a", card=n % 8, mib=100, cores=1, namespace=name)
        cluster.bound("b", card=n % 8, mib=100, cores=1, namespace=name)
        cluster.waiting("w", namespace=name)
        uses.append((name, uid, CardUse(card=f"GPU-{n % 8}", memory_bytes=1, cores_percent=0)))
    async with monitoring(cluster, settings(idle_s=60)) as quota:
        await until(lambda: len(quota.evaluator.statuses) == namespaces)
        await asyncio.sleep(120)
        await cluster.use(*uses)
        await until(lambda: len(quota.usage.pods) == namespaces)
        cost = await bytecodes(quota.evaluator.evaluate())
        shown = quota.evaluator.statuses["team-0/q"]
        counted = namespaces if "namespaceSelector" in spec else 1
        assert (shown.used.cards, shown.waiting.pods) == (2 * counted, counted)
        assert (shown.idle_pods, shown.seen.silent) == (counted, counted)
    return cost


@pytest.mark.parametrize("spec", [OWN, ALL, SHARED], ids=["own", "all", "lent"])
async def test_twice_as_much_of_everything_costs_twice_as_much(spec: dict[str, Any]) -> None:
    few, many = await a_round(spec, 12), await a_round(spec, 24)
    assert few > 1000
    assert many < 2.2 * few
