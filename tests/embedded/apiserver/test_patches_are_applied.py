"""The three kinds of patch, and what each makes of lists and of nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_embedded.apiserver.verbs.patches import merge
from tests.embedded.apiserver.setting import (
    JSON_PATCH,
    MERGE,
    NODES,
    PODS,
    STRATEGIC,
    ASmallCluster,
    Json,
)


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ([1, 2], {"a": "b"}, {"a": "b"}),
    ],
)
def test_a_merge_patch_is_what_its_standard_says(old: Any, patch: Any, new: Any) -> None:
    assert merge(old, patch) == new


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=10,
)


@given(JSON, JSON)
def test_a_merge_patch_applied_twice_changes_nothing_more(old: Any, patch: Any) -> None:
    once = merge(old, patch)
    assert merge(once, patch) == once


def labels_after(*steps: Json) -> Json | int:
    cluster = ASmallCluster()
    cluster.pod(labels={"a": "1", "b/c": "2"})
    answer = cluster.patch(f"{PODS}/p", list(steps), JSON_PATCH)
    return answer.body["metadata"].get("labels", {}) if answer.code == 200 else answer.code


L = "/metadata/labels"


@pytest.mark.parametrize(
    ("steps", "after"),
    [
        ([{"op": "add", "path": f"{L}/d", "value": "3"}], {"a": "1", "b/c": "2", "d": "3"}),
        ([{"op": "remove", "path": f"{L}/b~1c"}], {"a": "1"}),
        ([{"op": "replace", "path": f"{L}/a", "value": "9"}], {"a": "9", "b/c": "2"}),
        ([{"op": "move", "from": f"{L}/a", "path": f"{L}/z"}], {"z": "1", "b/c": "2"}),
        ([{"op": "copy", "from": f"{L}/a", "path": f"{L}/z"}], {"a": "1", "b/c": "2", "z": "1"}),
        ([{"op": "test", "path": f"{L}/a", "value": "1"}, {"op": "remove", "path": L}], {}),
        ([{"op": "test", "path": f"{L}/a", "value": "2"}, {"op": "remove", "path": L}], 422),
        ([{"op": "remove", "path": f"{L}/absent"}], 422),
        ([{"op": "replace", "path": f"{L}/absent", "value": "1"}], 422),
        ([{"op": "add", "path": "/absent/labels", "value": {}}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "jump", "path": L}], 400),
        ([{"op": "add", "path": "metadata", "value": {}}], 400),
        ([{"op": "add", "path": f"{L}/d"}], 400),
        ([{"op": "add", "path": f"{L}/d", "value": 3}], 422),
    ],
)
def test_a_json_patch_takes_all_its_steps_or_none(steps: list[Json], after: Json | int) -> None:
    assert labels_after(*steps) == after


def test_a_json_patch_reaches_into_lists() -> None:
    cluster = ASmallCluster()
    taint: Json = {"key": "a", "effect": "NoSchedule"}
    cluster.post(NODES, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}})
    more: list[Json] = [
        {"op": "add", "path": "/spec/taints/-", "value": {"key": "z", "effect": "NoSchedule"}},
        {"op": "add", "path": "/spec/taints/0", "value": {"key": "b", "effect": "NoExecute"}},
    ]
    reported = cluster.patch(f"{NODES}/n", more, JSON_PATCH).done
    keys = [t["key"] for t in reported["spec"]["taints"]]
    assert (keys[0], keys[1], keys[-1]) == ("b", "a", "z")
    beyond = [{"op": "add", "path": "/spec/taints/9", "value": taint}]
    assert cluster.patch(f"{NODES}/n", beyond, JSON_PATCH).code == 422


def condition(kind: str, status: str) -> Json:
    return {"type": kind, "status": status}


def test_a_strategic_patch_merges_what_has_a_key_and_replaces_the_rest() -> None:
    cluster = ASmallCluster()
    cluster.pod(node="n")
    first: Json = {"conditions": [condition("Ready", "False"), condition("a.dev/X", "True")]}
    cluster.patch(f"{PODS}/p/status", {"status": first}, STRATEGIC)
    second: Json = {"conditions": [condition("Ready", "True")], "hostIP": "10.0.0.1"}
    reported = cluster.patch(f"{PODS}/p/status", {"status": second}, STRATEGIC).done["status"]
    have = {c["type"]: c["status"] for c in reported["conditions"]}
    assert have == {"PodScheduled": "True", "Ready": "True", "a.dev/X": "True"}
    merged = cluster.patch(f"{PODS}/p/status", {"status": second}, MERGE).done["status"]
    assert merged["conditions"] == [condition("Ready", "True")]


def test_a_strategic_patch_of_taints_replaces_them() -> None:
    cluster = ASmallCluster()
    taints = [{"key": k, "effect": "NoSchedule"} for k in "ab"]
    cluster.post(NODES, {"metadata": {"name": "n"}, "spec": {"taints": taints}})
    reported = cluster.patch(f"{NODES}/n", {"spec": {"taints": taints[:1]}}, STRATEGIC).done
    assert reported["spec"]["taints"] == taints[:1]


def test_a_strategic_patch_can_delete_and_replace() -> None:
    cluster = ASmallCluster()
    cluster.pod(node="n")
    gone = [{"type": "PodScheduled", "$patch": "delete"}, condition("New", "True")]
    reported = cluster.patch(f"{PODS}/p/status", {"status": {"conditions": gone}}, STRATEGIC).done
    assert reported["status"]["conditions"] == [condition("New", "True")]
    again = [{"$patch": "replace"}, condition("Only", "True")]
    reported = cluster.patch(f"{PODS}/p/status", {"status": {"conditions": again}}, STRATEGIC).done
    assert reported["status"]["conditions"] == [condition("Only", "True")]
    unset: Json = {"metadata": {"labels": {"$patch": "replace", "k": "v"}}}
    reported = cluster.patch(f"{PODS}/p", unset, STRATEGIC).done
    assert reported["metadata"]["labels"] == {"k": "v"}


def test_finalizers_are_a_set_to_a_strategic_patch() -> None:
    cluster = ASmallCluster()
    cluster.pod()
    for name in ("a.dev/x", "a.dev/y", "a.dev/x"):
        cluster.patch(f"{PODS}/p", {"metadata": {"finalizers": [name]}}, STRATEGIC)
    reported = cluster.get(f"{PODS}/p").done
    assert reported["metadata"]["finalizers"] == ["a.dev/x", "a.dev/y"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.dev/x"]}}
    reported = cluster.patch(f"{PODS}/p", patch, STRATEGIC).done
    assert reported["metadata"]["finalizers"] == ["a.dev/y"]


@pytest.mark.parametrize(
    "patch",
    [
        {"status": {"conditions": [{"status": "True"}]}},
        {"$patch": "frob"},
    ],
)
def test_a_strategic_patch_that_makes_no_sense_is_refused(patch: Json) -> None:
    cluster = ASmallCluster()
    cluster.pod()
    assert cluster.patch(f"{PODS}/p/status", patch, STRATEGIC).refusal == (400, "BadRequest")
