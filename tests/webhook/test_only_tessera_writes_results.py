"""Keys that say which cards a pod holds are not a tenant's to write."""

from __future__ import annotations

import pytest

from tessera_schema.annotation_keys import RESERVE_KEY, SCHEDULER, TRACE_KEY
from tessera_schema.grants import GRANT_KEY
from tessera_schema.resizes import RESIZE_KEY
from tests.webhook.setting import (
    TRACE,
    WRITERS,
    Json,
    a_manifest,
    admitted,
    mutated,
    patched,
    the_rules,
    validated,
    why_not,
)

KEYS = [
    GRANT_KEY, "tessera.dev/made-up", "hami.io/vgpu-devices-allocated", "volcano.sh/gpu-index",
    "scheduling.koordinator.sh/device-allocated", "tencent.com/predicate-gpu-idx-0",
    "iluvatar.ai/gpu-assigned", "mthreads.com/gpu-index",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("limits", [None, {"cpu": "1"}], ids=["asks", "asks for nothing"])
def test_a_new_pod_loses_it(key: str, limits: dict[str, str] | None) -> None:
    pod = a_manifest(limits, notes={key: "x", "mine": "y"})
    answer = mutated(pod)
    assert patched(pod, answer)["metadata"]["annotations"] == {"mine": "y"}
    assert answer.warnings == (f"annotation {key}: written by Tessera only: removed",)


def test_a_pod_that_is_left_alone_loses_it_too() -> None:
    pod = a_manifest(notes={GRANT_KEY: "x"}, schedulerName="theirs")
    assert admitted(pod)["metadata"]["annotations"] == {}


def test_a_pod_that_is_left_alone_keeps_what_its_own_system_records() -> None:
    notes = {"hami.io/vgpu-devices-allocated": "x", GRANT_KEY: "y"}
    pod = a_manifest(notes=notes, schedulerName="theirs")
    done = admitted(pod)
    assert done["metadata"]["annotations"] == {"hami.io/vgpu-devices-allocated": "x"}
    assert validated(done).allowed


def test_another_webhook_may_not_add_it() -> None:
    pod = admitted(a_manifest())
    pod["metadata"]["annotations"] = {GRANT_KEY: "x"}
    status, message = why_not(validated(pod))
    assert (status, message.partition(": ")[0]) == (403, f"metadata.annotations[{GRANT_KEY}]")


def update(before: Json, after: Json, user: str = "jane", group: str = "users") -> bool:
    answer = validated(
        a_manifest(notes=after, schedulerName=SCHEDULER),
        old=a_manifest(notes=before, schedulerName=SCHEDULER),
        operation="UPDATE", user=user, groups=[group],
    )  # fmt: skip
    if not answer.allowed:
        assert why_not(answer)[0] == 403
    return answer.allowed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {GRANT_KEY: "x"}), ({GRANT_KEY: "x"}, {GRANT_KEY: "y"}), ({GRANT_KEY: "x"}, {}),
        ({TRACE_KEY: TRACE}, {}), ({}, {"volcano.sh/gpu-index": "0"}),
    ],
)  # fmt: skip
def test_a_pod_that_exists_is_changed_by_tesseras_accounts_only(before: Json, after: Json) -> None:
    assert not update(before, after)
    assert update(before, after, group=WRITERS)
    assert update(before, before)


@pytest.mark.parametrize("key", ["hami.io/vgpu-devices-allocated", "volcano.sh/gpu-index"])
def test_other_systems_go_on_with_their_own_pods(key: str) -> None:
    pod = a_manifest(notes={key: "x"}, schedulerName="hami-scheduler")
    before = a_manifest(schedulerName="hami-scheduler")
    change: Json = {"operation": "UPDATE", "user": "their-scheduler"}
    rules = the_rules(schedulers=[SCHEDULER])
    assert validated(pod, old=before, rules=rules, **change).allowed
    granted = a_manifest(notes={GRANT_KEY: "g"}, schedulerName="hami-scheduler")
    pod["metadata"]["annotations"][GRANT_KEY] = "g"
    assert not validated(pod, old=granted, rules=rules, **change).allowed


def test_a_resize_is_left_to_the_policy_that_looks_at_roles() -> None:
    assert update({GRANT_KEY: "x"}, {GRANT_KEY: "x", RESIZE_KEY: "{}"})
    assert not update({GRANT_KEY: "x"}, {GRANT_KEY: "x", RESERVE_KEY: "{}"})


def test_other_annotations_are_everybodys() -> None:
    assert update({GRANT_KEY: "x"}, {GRANT_KEY: "x", "mine": "y"})


def test_further_accounts_can_be_named() -> None:
    rules = the_rules(writers=["their-plugin"])
    pod = a_manifest(notes={"volcano.sh/gpu-index": "0"}, schedulerName=SCHEDULER)
    change: Json = {"old": a_manifest(schedulerName=SCHEDULER), "operation": "UPDATE"}
    assert validated(pod, rules=rules, user="their-plugin", **change).allowed
    assert not validated(pod, rules=rules, user="jane", **change).allowed


def test_a_binding_by_others_bears_no_grant() -> None:
    binding = {"metadata": {"name": "p", "annotations": {GRANT_KEY: "x"}}, "target": {"name": "n1"}}
    made: Json = {"kind": "Binding", "sub": "binding"}
    assert why_not(validated(binding, **made))[0] == 403
    assert validated(binding, groups=[WRITERS], **made).allowed
    assert validated({"metadata": {"name": "p"}}, **made).allowed
