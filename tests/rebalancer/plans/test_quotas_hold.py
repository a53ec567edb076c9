"""Quotas as plans see them: a pod that waits for its quota gets no plan, by whatever objects say
so."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.rebalancer.plans.cluster import CRDS, ROOT, Cluster, planning, two_half_full, until

pytestmark = pytest.mark.looptime

DEFINITION = msgspec.yaml.decode(
    (ROOT / "deploy/kustomize/base/crds/acceleratorquotas.yaml").read_bytes()
)
OWN = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"
BY_LABEL = {"namespaceSelector": {"matchLabels": {"team": "x"}}, "hard": {"cards": 1}}


def quota(cluster: Cluster, spec: dict[str, Any]) -> None:
    cluster.make(CRDS, DEFINITION)
    kind = {"apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota"}
    cluster.make(OWN, {**kind, "metadata": {"name": "q"}, "spec": spec})


def label(cluster: Cluster, **labels: str | None) -> None:
    cluster.call("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": labels}})


async def test_a_namespace_is_limited_by_its_labels_while_it_has_them() -> None:
    cluster = two_half_full()
    quota(cluster, BY_LABEL)
    label(cluster, team="x")
    async with planning(cluster) as plans:
        await asyncio.sleep(60)
        assert cluster.plans() == []
        assert "quota" in plans.planner.why_not["default/w"]
        label(cluster, team=None)
        await until(cluster.plans)


async def test_a_namespace_whose_labels_are_not_selected_is_free() -> None:
    cluster = two_half_full()
    quota(cluster, BY_LABEL)
    async with planning(cluster):
        await until(cluster.plans)


async def test_a_quota_that_went_while_nobody_watched_limits_nobody() -> None:
    cluster = two_half_full()
    quota(cluster, {"hard": {"cards": 1}})
    async with planning(cluster):
        await asyncio.sleep(60)
        assert cluster.plans() == []
        cluster.kube.pause()
        cluster.call("DELETE", f"{OWN}/q")
        cluster.store.compact()  # no watch can report it any more
        cluster.kube.cut_watches()
        cluster.kube.resume()
        await until(cluster.plans)


async def test_a_quota_that_makes_no_sense_limits_what_it_did_before() -> None:
    cluster = two_half_full()
    quota(cluster, {"hard": {"cards": 1}})
    async with planning(cluster):
        await asyncio.sleep(30)
        cluster.call("PATCH", f"{OWN}/q", {"spec": {"hard": {"no-such-thing": 1}}})
        await asyncio.sleep(60)
        cluster.store.compact()
        cluster.kube.cut_watches()
        await asyncio.sleep(60)
        assert cluster.plans() == []
        cluster.call("DELETE", f"{OWN}/q")
        await until(cluster.plans)
