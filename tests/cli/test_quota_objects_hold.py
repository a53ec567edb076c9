"""ResourceQuota in the dialects' units, AcceleratorQuota in Tessera's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Ran, Tessera

NODE = node(
    cards=2,
    capacity={
        "mthreads.com/sgpu-core": "32",
        "mthreads.com/sgpu-memory": "192",
        "iluvatar.ai/vcuda-core": "200",
        "iluvatar.ai/vcuda-memory": "256",
    },
)
HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}


def resource_quota(hard: dict[str, Any], name: str = "q", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"hard": hard, **spec},
    }


def accelerator_quota(spec: dict[str, Any], version: str = "v1alpha1") -> dict[str, Any]:
    return {
        "apiVersion": f"tessera.dev/{version}",
        "kind": "AcceleratorQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": spec,
    }


def place(tessera: Tessera, *objects: dict[str, Any], limits: dict[str, Any] | None = None) -> Ran:
    pods = [pod(n, limits or HAMI, namespace="team") for n in ("a", "b")]
    return tessera("place", "-f", "-", "-o", "json", stdin=text(NODE, *objects, *pods))


def fits(tessera: Tessera, *objects: dict[str, Any], limits: dict[str, Any] | None = None) -> int:
    return list(place(tessera, *objects, limits=limits).verdicts.values()).count("placed")


VCUDA = {"inspur.com/vcuda-core": 30, "inspur.com/vcuda-memory": 10}
MTHREADS = {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 8, "mthreads.com/sgpu-core": 4}
ILUVATAR = {"iluvatar.ai/vgpu": 1, "iluvatar.ai/vcuda-core": 10, "iluvatar.ai/vcuda-memory": 8}


@pytest.mark.parametrize(
    ("hard", "limits", "placed"),
    [
        pytest.param({"limits.nvidia.com/gpumem": 6000}, HAMI, 2, id="just-enough"),
        pytest.param({"limits.nvidia.com/gpumem": "5999"}, HAMI, 1, id="one-mib-short"),
        pytest.param({"limits.nvidia.com/gpumem": "6k"}, HAMI, 2, id="with-a-suffix"),
        pytest.param({"limits.nvidia.com/gpucores": 59}, HAMI, 1, id="cores"),
        pytest.param({"limits.nvidia.com/gpumem": 0}, HAMI, 0, id="zero-blocks"),
        pytest.param({"limits.nvidia.com/gpu": 1}, HAMI, 1, id="cards"),
        pytest.param({"limits.nvidia.com/gpu": 1}, VCUDA, 1, id="cards-in-another-dialect"),
        pytest.param({"limits.mthreads.com/vgpu": 1}, MTHREADS, 1, id="one-card"),
        pytest.param({"limits.iluvatar.ai/vgpu": 1}, ILUVATAR, 1, id="one-card-of-iluvatar"),
        pytest.param({"limits.inspur.com/vcuda-memory": 19}, VCUDA, 1, id="units-of-256-mib"),
        pytest.param({"limits.tencent.com/vcuda-core": 60}, VCUDA, 2, id="the-other-prefix"),
        pytest.param({"limits.mthreads.com/sgpu-memory": 15}, MTHREADS, 1, id="units-of-512-mib"),
        pytest.param({"limits.iluvatar.ai/vcuda-memory": 16}, ILUVATAR, 2, id="iluvatar"),
        pytest.param({"limits.iluvatar.ai/vcuda-memory": 1}, HAMI, 2, id="another-vendors"),
        pytest.param({"limits.cpu": 0, "pods": 0}, HAMI, 2, id="entries-that-are-not-ours"),
        pytest.param(
            {"limits.nvidia.com/gpumem": 6000, "limits.inspur.com/vcuda-memory": 20},
            HAMI,
            1,
            id="two-dialects-count-in-one-book",
        ),
    ],
)
def test_a_resource_quota_counts_in_its_dialects_unit(
    tessera: Tessera, hard: dict[str, Any], limits: dict[str, Any], placed: int
) -> None:
    assert fits(tessera, resource_quota(hard), limits=limits) == placed


def test_every_quota_object_of_a_namespace_holds(tessera: Tessera) -> None:
    low = resource_quota({"limits.nvidia.com/gpumem": 3000}, "low")
    high = resource_quota({"limits.nvidia.com/gpumem": 99999}, "high")
    assert fits(tessera, low, high) == fits(tessera, high, low) == 1


def test_the_answer_names_the_quota_and_the_numbers(tessera: Tessera) -> None:
    ran = place(tessera, resource_quota({"limits.nvidia.com/gpumem": 5000}))
    message = ran.pods[1]["message"]
    assert [r["code"] for r in ran.pods[1]["reasons"]] == ["ResourceQuotaNotFit"]
    assert "ResourceQuota q (limits.nvidia.com/gpumem) allows 5000 MiB" in message
    assert "3000 are used and 3000 asked" in message


def test_quotas_that_do_not_count_here_are_reported(tessera: Tessera) -> None:
    ran = place(tessera, resource_quota({"requests.nvidia.com/gpu": 1}))
    assert "spec.hard[requests.nvidia.com/gpu]: requests are counted by the API server" in ran.err
    assert "write limits.nvidia.com/gpu to have it planned" in ran.err
    ran = place(tessera, resource_quota({"limits.nvidia.com/gpu": 1}))
    assert (
        "ResourceQuota q (limits.nvidia.com/gpu) allows 1 cards, 1 are used and 1 asked"
        in (ran.pods[1]["message"])
    )
    ran = place(tessera, resource_quota({"requests.nvidia.com/gpumem-percentage": 100}))
    assert "limit memory, cores or cards in an AcceleratorQuota to have it planned" in ran.err
    scoped = resource_quota({"limits.nvidia.com/gpumem": 0}, scopes=["BestEffort"])
    ran = place(tessera, scoped)
    assert (ran.status, "spec.scopes: quotas for some pods only" in ran.err) == (0, True)


@pytest.mark.parametrize(
    ("spec", "limits", "placed"),
    [
        pytest.param({"hard": {"memory": "6000Mi"}}, HAMI, 2, id="memory"),
        pytest.param({"hard": {"memory": "5Gi"}}, HAMI, 1, id="less-memory"),
        pytest.param({"hard": {"cores": 30}}, HAMI, 1, id="cores"),
        pytest.param({"hard": {"cores": "12.5"}}, ILUVATAR, 1, id="parts-of-a-percent"),
        pytest.param({"hard": {"cards": 1}}, HAMI, 1, id="cards"),
        pytest.param({"hard": {"cards": 0}}, HAMI, 0, id="zero-blocks"),
        pytest.param({"hard": {"models": {"A100": "0.5"}}}, HAMI, 1, id="parts-of-a-model"),
        pytest.param({"hard": {"models": {"H100": 8}}}, HAMI, 0, id="another-model-is-denied"),
        pytest.param({"vendor": "mthreads", "hard": {"cards": 0}}, HAMI, 2, id="another-vendor"),
        pytest.param({"vendor": "nvidia", "hard": {"cards": 1}}, HAMI, 1, id="its-vendor"),
        pytest.param({"hard": {}}, HAMI, 2, id="nothing-is-limited"),
    ],
)
def test_an_accelerator_quota_counts_over_all_dialects(
    tessera: Tessera, spec: dict[str, Any], limits: dict[str, Any], placed: int
) -> None:
    assert fits(tessera, accelerator_quota(spec), limits=limits) == placed


def test_a_quota_holds_in_its_namespace_only(tessera: Tessera) -> None:
    other = accelerator_quota({"hard": {"cards": 0}})
    other["metadata"]["namespace"] = "other"
    assert fits(tessera, other) == 2


@pytest.mark.parametrize(
    ("quota", "reported"),
    [
        pytest.param(
            resource_quota({"limits.nvidia.com/gpumem": "lots"}),
            'ResourceQuota team/q: spec.hard[limits.nvidia.com/gpumem]: "lots"',
            id="a-word",
        ),
        pytest.param(
            resource_quota({"limits.nvidia.com/gpumem": "-1"}),
            'spec.hard[limits.nvidia.com/gpumem]: "-1": write an amount, 0 or more',
            id="negative",
        ),
        pytest.param(
            resource_quota({"limits.nvidia.com/gpumem": "1.5"}), "not a whole number", id="fraction"
        ),
        pytest.param(
            resource_quota({"limits.nvidia.com/gpumem": "1e30"}), "64 bits", id="overflow"
        ),
        pytest.param(resource_quota({"limits.nvidia.com/gpumem": [1]}), "a list of 1", id="a-list"),
        pytest.param(resource_quota([]), "spec.hard: a list of 0", id="hard-as-a-list"),  # type: ignore[arg-type]  # bad on purpose
        pytest.param(accelerator_quota({}, "v9"), "apiVersion: v9: write", id="a-version"),
        pytest.param(
            accelerator_quota({"vendor": "acme"}), "spec.vendor: acme: write one of", id="a-vendor"
        ),
        pytest.param(accelerator_quota({"hard": {"ram": 1}}), "unknown field `ram`", id="a-typo"),
        pytest.param(
            accelerator_quota({"hard": {"cards": "1.5"}}),
            'spec.hard.cards: "1.5"',
            id="half-a-card",
        ),
        pytest.param(
            accelerator_quota({"hard": {"models": {"A100": -1}}}),
            "spec.hard.models[A100]: -1",
            id="a-negative-model",
        ),
        pytest.param(
            accelerator_quota({"hard": {"memory": True}}), "spec.hard.memory: true", id="a-boolean"
        ),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(
    tessera: Tessera, quota: dict[str, Any], reported: str
) -> None:
    ran = place(tessera, quota)
    assert (ran.status, ran.out) == (1, "")
    assert reported in ran.err


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize(
    ("labels", "placed"),
    [
        pytest.param({"team": "x"}, 1, id="selected"),
        pytest.param({"team": "y"}, 2, id="another"),
        pytest.param(None, 2, id="not-described"),
    ],
)
def test_a_quota_holds_in_the_namespaces_that_it_selects(
    tessera: Tessera, labels: dict[str, str] | None, placed: int
) -> None:
    selector = {"matchLabels": {"team": "x"}}
    quota = accelerator_quota({"namespaceSelector": selector, "hard": {"cards": 1}})
    quota["metadata"]["namespace"] = "home"
    objects = [] if labels is None else [namespace("team", **labels)]
    assert fits(tessera, quota, *objects) == placed


def test_gpu_managers_quotas_hold(tessera: Tessera) -> None:
    map_ = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "gpuquota", "namespace": "kube-system"},
        "data": {"gpu_quota": '{"team": {"quota": {"A100": 0.5}}}'},
    }  # fmt: skip
    assert fits(tessera, map_) == 1
    ran = place(tessera, map_ | {"data": {"gpu_quota": "{"}})
    assert ran.status == 1
    assert "data[gpu_quota]" in ran.err
    map_["metadata"] = {"name": "gpuquota", "namespace": "elsewhere"}
    assert fits(tessera, map_) == 2


def test_a_reason_of_the_whole_cluster_is_printed_once(tessera: Tessera) -> None:
    asking = pod("a", {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 10}, namespace="team")
    quota = resource_quota({"limits.nvidia.com/gpu": 1})
    out = tessera("place", "-f", "-", "--why", stdin=text(NODE, quota, asking)).out
    section = out.partition("team/a waiting: ")[2]
    assert section.count("(limits.nvidia.com/gpu) allows 1 cards") == 1
