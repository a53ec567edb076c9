"""gpu-admission's ConfigMap of quotas: cards by model, and pools of nodes."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.dialects.gpumanager.quota import limits
from tessera_schema.reasons import Reason
from tessera_testing.builders import a_pod
from tessera_testing.plan import plan
from tests.dialects.gpumanager.setting import a_gpu_node, asking
from tests.dialects.gpumanager.test_quota_by_model import in_use

Q = (
    '{"foo":{"quota":{"M40":2},"pool":["public"]},"bar":{"quota":{"M40":1,"P100":1},"pool":[]},'
    '"default":{"pool":["public"],"quota":{"M40":4,"P100":4}}}'
)
MODEL, POOL = "gaia.tencent.com/gpu-model", "gaia.tencent.com/gpu-pool"
NODES = [
    a_gpu_node(name, 8, 8 * 64, labels={MODEL: model, POOL: pool, "name": name})
    for name, model, pool in (
        ("m1", "M40", "public"), ("m2", "M40", "wx"), ("p1", "P100", "public")
    )
]  # fmt: skip
HOLDERS = {"M40": "m1", "P100": "p1"}


@pytest.mark.parametrize(
    ("namespace", "used", "core", "passing"),
    [
        pytest.param("foo", {"M40": 150}, 50, {"m1"}, id="G02"),
        pytest.param("foo", {"M40": 150}, 51, set(), id="G03"),
        pytest.param("bar", {"M40": 100}, 10, {"p1"}, id="G04"),
        pytest.param("bar", {}, 10, {"m1", "m2", "p1"}, id="no-pools-are-all"),
        pytest.param("other", {}, 800, {"m1", "m2", "p1"}, id="G06"),
        pytest.param("default", {"P100": 400}, 10, {"m1"}, id="G07"),
    ],
)
def test_the_nodes_that_pass_are_gpu_admissions(
    namespace: str, used: dict[str, int], core: int, passing: set[str]
) -> None:
    bound = [pod for model, n in used.items() for pod in in_use(namespace, HOLDERS[model], n)]
    found = set()
    for node in NODES:
        pod = a_pod(asking(core, 1), namespace=namespace, node_selector={"name": node.name})
        reported = limits({"gpu_quota": Q}, "ConfigMap gpuquota")
        (outcome,) = plan([pod], NODES, bound=bound, limits=reported)
        if outcome.node:
            found.add(outcome.node)
        else:
            assert Reason.RESOURCE_QUOTA_NOT_FIT in {why.reason for why in outcome.reasons}
    assert found == passing


def test_of_all_nodes_one_that_is_allowed_is_taken_at_once() -> None:
    pods = [a_pod(asking(100, 1), namespace="foo", name=f"p{n}") for n in range(3)]
    reported = limits({"gpu_quota": Q}, "ConfigMap gpuquota")
    outcomes = plan(pods, NODES, limits=reported)
    assert [o.node for o in outcomes] == ["m1", "m1", ""]
    assert "ConfigMap gpuquota (foo)" in limits({"gpu_quota": Q}, "ConfigMap gpuquota")[0].source


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="torn"),
        pytest.param("[]", id="a-list"),
        pytest.param('{"foo":{"quotas":{}}}', id="misspelt"),
        pytest.param('{"foo":{"quota":{"M40":-1}}}', id="below-0"),
        pytest.param('{"foo":{"quota":{"M40":"2"}}}', id="text"),
        pytest.param('{"foo":{"pool":"public"}}', id="no-list-of-pools"),
    ],
)
def test_what_makes_no_sense_is_refused_whole(text: str) -> None:
    with pytest.raises(BadLimit, match="gpu_quota"):
        limits({"gpu_quota": text}, "ConfigMap gpuquota")


def test_a_map_without_the_key_says_what_it_has() -> None:
    with pytest.raises(BadLimit, match="quotas"):
        limits({"quotas": Q}, "ConfigMap gpuquota")
