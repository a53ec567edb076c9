"""What `tessera report -o plans` writes is what an API server with Tessera's kinds takes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
import yaml

from benchmarks.report_week import week
from tessera_cli.report.answer import UseReport, write_plans
from tessera_core.registry.registry import load
from tessera_core.utilization.history import UseHistory
from tessera_core.utilization.right_sizes import SizeRules, right_sizes
from tessera_schema.plans import PLANS, PlanKind, PlanSpec
from tests.contract.client import ANSWER_S
from tests.contract.cluster import OpenCluster
from tests.contract.test_kinds_can_be_added import DEFINITIONS

KIND = Path(__file__).parents[2] / "deploy/kustomize/base/crds/rebalanceplans.yaml"


def a_report() -> UseReport:
    history, rules = UseHistory(), SizeRules()
    history.add_all(week(20, 1))
    sizes, left = right_sizes(history, load(), rules)
    return UseReport(history=history, owners=history.owners(), sizes=sizes, left=left, rules=rules)


async def test_a_plan_is_created_and_nobody_has_decided(
    open_cluster: OpenCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    written = write_plans(a_report())
    manifests = list(yaml.safe_load_all(capsys.readouterr().out))
    assert len(manifests) == written > 3
    async with open_cluster() as cluster:
        await cluster.make(DEFINITIONS, yaml.safe_load(KIND.read_text()))
        async with asyncio.timeout(ANSWER_S):
            while (await cluster.admin.get(PLANS)).status != 200:
                await asyncio.sleep(0.05)
        for manifest in manifests:
            made = await cluster.make(PLANS, manifest)
            assert made["spec"] == manifest["spec"]
            spec = msgspec.convert(made["spec"], PlanSpec)
            assert (spec.kind, spec.decision) == (PlanKind.RESIZE, "")
