"""The published manifests of every dialect, and what the webhook makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tessera_scheduler.webhook.rules import Setting
from tessera_schema.annotation_keys import TRACE_KEY
from tests.webhook.setting import (
    TRACE,
    Json,
    a_manifest,
    admitted,
    mutated,
    patch_of,
    patched,
    rules_with,
    the_rules,
    validated,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDEN = Path(__file__).parent / "patches.json"


def pods_of(file: Path) -> list[Json]:
    with file.open(encoding="utf-8") as text:
        return [doc for doc in yaml.safe_load_all(text) if doc["kind"] == "Pod"]


PODS = {pod["metadata"]["name"]: pod for f in sorted(EXAMPLES.glob("*.yaml")) for pod in pods_of(f)}
PATCHES: dict[str, Any] = msgspec.json.decode(GOLDEN.read_bytes())


def test_every_example_has_a_golden_patch() -> None:
    assert PATCHES.keys() == PODS.keys()


@pytest.mark.parametrize("name", PODS)
def test_an_example_gets_its_golden_patch(name: str) -> None:
    answer = mutated(PODS[name], Setting(traceparent=TRACE))
    assert answer.warnings == ()
    assert patch_of(answer) == PATCHES[name]


@pytest.mark.parametrize("name", PODS)
def test_a_completed_example_is_left_alone_and_valid(name: str) -> None:
    pod = admitted(PODS[name], Setting(traceparent=TRACE))
    assert patch_of(mutated(pod, Setting(traceparent=TRACE))) == []
    assert validated(pod).allowed


def test_equal_amounts_in_another_spelling_are_left_alone() -> None:
    amounts = {"koordinator.sh/gpu-memory": "5760Mi", "koordinator.sh/gpu-core": "25"}
    pod = admitted(a_manifest(amounts, schedulerName="koord-scheduler"))
    resources = pod["spec"]["containers"][0]["resources"]
    for kind in ("limits", "requests"):
        resources[kind]["koordinator.sh/gpu-memory"] = "5898240Ki"
    assert patch_of(mutated(pod)) == []
    assert validated(pod).allowed


def test_annotations_keep_their_names_in_a_patch() -> None:
    pod = admitted(a_manifest(notes={"example.com/a~b": "1"}), Setting(traceparent=TRACE))
    assert pod["metadata"]["annotations"] == {"example.com/a~b": "1", TRACE_KEY: TRACE}


def test_a_trace_that_the_pod_belongs_to_stays() -> None:
    other = TRACE.replace("0af7", "1af7")
    pod = a_manifest(notes={TRACE_KEY: other})
    assert admitted(pod, Setting(traceparent=TRACE))["metadata"]["annotations"] == {
        TRACE_KEY: other
    }


def test_a_trace_that_is_none_is_replaced() -> None:
    pod = a_manifest(notes={TRACE_KEY: "garbage"})
    assert admitted(pod, Setting(traceparent=TRACE))["metadata"]["annotations"] == {
        TRACE_KEY: TRACE
    }
    assert admitted(pod)["metadata"]["annotations"] == {}


def test_a_pod_without_requests_is_not_touched() -> None:
    for limits in ({}, {"cpu": "1"}):
        answer = mutated(a_manifest(limits), Setting(traceparent=TRACE))
        assert (answer.allowed, patch_of(answer), answer.warnings) == (True, [], ())


def test_a_count_of_zero_keeps_its_scheduler() -> None:
    pod = admitted(a_manifest({"nvidia.com/gpu": "0"}), Setting(traceparent=TRACE))
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert "annotations" not in pod["metadata"]


@pytest.mark.parametrize("name", ["koord-scheduler", "volcano", "hami-scheduler"])
def test_the_scheduler_that_a_manifest_names_stays(name: str) -> None:
    assert admitted(a_manifest(schedulerName=name))["spec"]["schedulerName"] == name


def test_a_foreign_schedulers_pod_is_left_alone_with_a_warning() -> None:
    pod = a_manifest(schedulerName="theirs")
    answer = mutated(pod)
    assert patched(pod, answer) == pod
    assert answer.warnings == (
        "spec.schedulerName: theirs: left alone: Tessera gives this pod no share; leave it out, "
        "or write tessera-scheduler",
    )
    assert validated(pod).allowed


def test_the_default_schedulers_pods_can_be_left_to_it() -> None:
    rules = the_rules(take_default=False)
    pod = a_manifest()
    assert admitted(pod, rules=rules) == pod
    unset = a_manifest()
    del unset["spec"]["schedulerName"]
    assert admitted(unset, rules=rules)["spec"]["schedulerName"] == "tessera-scheduler"


@pytest.mark.parametrize("where", ["pod", "namespace"])
def test_a_label_opts_out(where: str) -> None:
    pod, setting = a_manifest(), Setting()
    if where == "pod":
        pod["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    else:
        setting = Setting(namespace={"hami.io/webhook": "ignore"})
    answer = mutated(pod, setting)
    assert patch_of(answer) == []
    assert "hami.io/webhook=ignore: left alone" in answer.warnings[0]
    assert validated(pod, setting).allowed


def test_an_own_runtime_class_stays() -> None:
    rules = rules_with({"hami": {"runtime_class_name": "gpu"}})
    assert admitted(a_manifest(), rules=rules)["spec"]["runtimeClassName"] == "gpu"
    own = a_manifest(runtimeClassName="mine")
    assert admitted(own, rules=rules)["spec"]["runtimeClassName"] == "mine"
