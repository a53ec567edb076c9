"""The JSON document: its shape, its numbers, and what each verdict fills in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.cluster import bound, node, pod, text
from tests.cli.conftest import Tessera

KEYS = [
    "namespace", "name", "verdict", "dialect", "node", "message", "mutated", "cards",
    "annotations", "inject", "reasons", "warnings",
]  # fmt: skip
TYPES: dict[str, type] = {
    **dict.fromkeys(KEYS, str), "mutated": dict, "cards": list, "annotations": dict,
    "inject": dict, "reasons": list, "warnings": list,
}  # fmt: skip
NODE = node(capacity={"mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "96"})


def one(tessera: Tessera, *objects: dict[str, Any], status: int = 0) -> dict[str, Any]:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(*objects))
    assert ran.status == status, ran.err
    (answer,) = ran.pods
    return answer


def test_a_placed_pod_says_all_that_would_be_written(tessera: Tessera) -> None:
    answer = one(
        tessera, NODE, pod(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000,
                                   "nvidia.com/gpucores": 30}, namespace="team"),
    )  # fmt: skip
    assert list(answer) == KEYS
    assert {
        k: answer[k]
        for k in ("namespace", "name", "verdict", "dialect", "node", "reasons", "warnings")
    } == {
        "namespace": "team", "name": "p", "verdict": "placed", "dialect": "hami", "node": "n1",
        "reasons": [], "warnings": [],
    }  # fmt: skip
    asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
    assert answer["mutated"] == {"main": {"limits": asked, "requests": asked, "env": {}}}
    assert answer["cards"] == [
        {"container": "main", "id": "GPU-n1-1", "index": 1, "memory_mib": 3000,
         "cores_percent": 30}
    ]  # fmt: skip
    assert answer["annotations"]["hami.io/vgpu-devices-allocated"] == "GPU-n1-1,NVIDIA,3000,30:;"
    grant = json.loads(answer["annotations"]["tessera.dev/grant"])
    assert (grant["name"], grant["node"]) == ("p", "n1")
    given = answer["inject"]["main"]
    assert list(given) == ["env", "mounts", "devices"]
    assert given["env"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert isinstance(given["devices"], list)
    assert {"destination": "/etc/ld.so.preload", "read_only": True} in [
        {k: m[k] for k in ("destination", "read_only")} for m in given["mounts"]
    ]
    assert all(list(m) == ["destination", "source", "read_only"] for m in given["mounts"])


def test_whole_numbers_have_no_point_and_others_keep_foreign(tessera: Tessera) -> None:
    limits = {
        "mthreads.com/vgpu": 1,
        "mthreads.com/sgpu-memory": 16,
        "mthreads.com/sgpu-core": 1,
    }
    ran = tessera(
        "place", "-f", "-", "-o", "json", stdin=text(NODE, pod(limits=limits), pod("whole"))
    )
    assert '"memory_mib":8192,"cores_percent":6.25}' in ran.out
    assert '"memory_mib":3000,"cores_percent":0}' in ran.out


def test_two_dialects_of_two_vendors_are_joined(tessera: Tessera) -> None:
    both = pod(limits={"nvidia.com/gpu": 1, "mthreads.com/vgpu": 1})
    assert one(tessera, NODE, both)["dialect"] == "hami,mthreads"


def test_a_pod_that_requests_for_nothing_is_ignored(tessera: Tessera) -> None:
    answer = one(tessera, NODE, pod(limits={"cpu": "1"}))
    assert (answer["verdict"], answer["mutated"], answer["cards"]) == ("ignored", {}, [])
    assert {key: type(answer[key]) for key in KEYS} == TYPES
    assert one(tessera, NODE, pod(limits={"nvidia.com/gpu": 0}))["verdict"] == "ignored"


def test_a_pod_that_waits_names_nodes_codes_and_numbers(tessera: Tessera) -> None:
    answer = one(
        tessera, NODE, bound("b", "GPU-n1-0,NVIDIA,16000,0:GPU-n1-1,NVIDIA,15000,0:;"), pod(),
        status=2,
    )  # fmt: skip
    assert (answer["verdict"], answer["node"], answer["cards"]) == ("waiting", "", [])
    (reason,) = answer["reasons"]
    assert (reason["node"], reason["code"]) == ("n1", "CardInsufficientMemory")
    assert "3000 MiB" in reason["message"]
    assert "1384 MiB" in reason["message"]
    assert {key: type(answer[key]) for key in KEYS} == TYPES


def test_a_rejected_pod_names_field_value_and_remedy(tessera: Tessera) -> None:
    answer = one(tessera, NODE, pod(limits={"inspur.com/vcuda-core": "150"}), status=2)
    assert (answer["verdict"], answer["node"]) == ("rejected", "")
    assert "spec.containers[0].resources.limits[inspur.com/vcuda-core]: 150" in answer["message"]
    assert [r["code"] for r in answer["reasons"]] == ["InvalidRequest"]
    assert {key: type(answer[key]) for key in KEYS} == TYPES


@pytest.mark.parametrize(
    ("limits", "status"),
    [({"cpu": 1}, 0), ({"nvidia.com/gpu": 3}, 2), ({"nvidia.com/gpu": "-1"}, 2)],
)
def test_one_pod_that_is_not_placed_makes_the_status_2(
    tessera: Tessera, limits: dict[str, Any], status: int
) -> None:
    for form in ("json", "table"):
        ran = tessera("place", "-f", "-", "-o", form, stdin=text(NODE, pod("a"), pod("b", limits)))
        assert ran.status == status


def test_the_same_input_gives_the_same_answer(tessera: Tessera) -> None:
    def stable() -> Any:
        answer = one(tessera, NODE, pod())
        return {k: v for k, v in answer.items() if k != "annotations"}, {
            k: v for k, v in answer["annotations"].items() if "time" not in k
        }

    assert stable() == stable()
