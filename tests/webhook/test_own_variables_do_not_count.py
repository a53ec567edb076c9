"""Variables by which a container would give itself cards or limits."""

from __future__ import annotations

import pytest

from tessera_core.admission.guarded_env import OWN_ENVIRONMENT
from tessera_scheduler.webhook.rules import Setting
from tests.webhook.setting import (
    Json,
    a_manifest,
    admitted,
    mutated,
    patch_of,
    patched,
    rules_with,
    validated,
    why_not,
)

STRICT = Setting(namespace={OWN_ENVIRONMENT: "refuse"})
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
MINE = {"name": "MODE", "value": "train"}


def a_pod(*env: Json) -> Json:
    return a_manifest(container={"env": list(env)})


@pytest.mark.parametrize(
    "variable",
    [
        ALL,
        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "a"}}},
        {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "0"},
        {"name": "CUDA_DEVICE_MEMORY_LIMIT_7", "value": "80g"},
        {"name": "CUDA_DEVICE_SM_LIMIT", "value": "100"},
        {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
        {"name": "CUDA_OVERSUBSCRIBE", "value": "true"},
    ],
    ids=lambda v: v["name"],
)  # fmt: skip
def test_it_is_taken_away_with_one_warning(variable: Json) -> None:
    pod = a_pod(MINE, variable, MINE)
    answer = mutated(pod)
    assert patched(pod, answer)["spec"]["containers"][0]["env"] == [MINE, MINE]
    assert answer.warnings == (
        f"container c: env {variable['name']}={variable.get('value', '')}: not used: cards and "
        "limits of a share are set by the node",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NVIDIA_VISIBLE_DEVICES", "void"), ("CUDA_DISABLE_CONTROL", "false"),
        ("CUDA_VISIBLE_DEVICES", "0"), ("NVIDIA_DRIVER_CAPABILITIES", "all"),
        ("LD_PRELOAD", "/usr/lib/libjemalloc.so"), ("CUDA_TASK_PRIORITY", "0"),
    ],
)  # fmt: skip
def test_what_harms_nothing_stays(name: str, value: str) -> None:
    pod = a_pod({"name": name, "value": value})
    assert admitted(pod)["spec"]["containers"][0]["env"] == [{"name": name, "value": value}]


def test_all_of_them_go_from_all_containers() -> None:
    sidecar = {"name": "beside", "env": [ALL, MINE, ALL]}
    pod = a_pod(ALL, ALL)
    pod["spec"]["containers"].append(sidecar)
    pod["spec"]["initContainers"] = [{"name": "init", "env": [ALL]}]
    spec = admitted(pod)["spec"]
    assert [c["env"] for c in (*spec["initContainers"], *spec["containers"])] == [[], [], [MINE]]
    assert patch_of(mutated(admitted(pod))) == []


def test_a_namespace_may_refuse_them() -> None:
    status, message = why_not(mutated(a_pod(MINE, ALL), STRICT))
    assert (status, message.partition(": ")[0]) == (403, "spec.containers[0].env[1]")
    assert "NVIDIA_VISIBLE_DEVICES" in message
    assert mutated(a_pod(MINE), STRICT).allowed


def test_another_webhook_may_not_bring_them_back() -> None:
    pod = admitted(a_pod(MINE))
    pod["spec"]["containers"][0]["env"].append(ALL)
    assert "another webhook changed it" in why_not(validated(pod))[1]


def test_what_a_dialect_hides_stays_hidden() -> None:
    rules = rules_with({"hami": {"overwrite_env": True}})
    pod = a_pod()
    pod["spec"]["containers"].append({"name": "beside", "env": [ALL]})
    spec = admitted(pod, rules=rules)["spec"]
    hidden = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    assert spec["containers"][1]["env"] == hidden
    assert patch_of(mutated({**pod, "spec": spec}, rules=rules)) == []


def test_cards_are_hidden_from_plain_pods_where_the_option_says_so() -> None:
    rules = rules_with({"hami": {"overwrite_env": True}})
    privileged = {"securityContext": {"privileged": True}}
    pod = a_manifest({"cpu": "1"}, container={"env": [ALL]}, initContainers=[
        {"name": "a", "env": [MINE]}, {"name": "b"}, {"name": "driver", **privileged},
        {"name": "other", "resources": {"limits": {"amd.com/gpu": "1"}}},
    ])  # fmt: skip
    hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}
    done = admitted(pod, rules=rules)
    assert done["spec"]["containers"][0]["env"] == [hidden]
    assert [c.get("env") for c in done["spec"]["initContainers"]] == [
        [MINE, hidden], [hidden], None, None
    ]  # fmt: skip
    assert done["spec"]["schedulerName"] == "default-scheduler"
    assert patch_of(mutated(done, rules=rules)) == []
    assert patch_of(mutated(pod)) == []


def test_cards_are_not_hidden_from_pods_that_opt_out_or_claim_them() -> None:
    rules = rules_with({"hami": {"overwrite_env": True}})
    pod = a_manifest({"cpu": "1"})
    pod["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    assert patch_of(mutated(pod, rules=rules)) == []
    assert patch_of(mutated(a_manifest({"cpu": "1"}), Setting(namespace={
        "hami.io/webhook": "ignore"
    }), rules=rules)) == []  # fmt: skip
    claiming = a_manifest({}, resourceClaims=[{"name": "c"}])
    assert patch_of(mutated(claiming, rules=rules)) == []
    foreign = a_manifest(schedulerName="theirs")
    assert patch_of(mutated(foreign, rules=rules)) == []


def test_a_debugging_containers_own_ones_go() -> None:
    first, second = {"name": "a", "env": [ALL]}, {"name": "b", "env": [ALL, MINE]}
    old = a_manifest(ephemeralContainers=[first])
    new = a_manifest(ephemeralContainers=[first, second])
    change: Json = {"old": old, "operation": "UPDATE", "sub": "ephemeralcontainers"}
    answer = mutated(new, **change)
    assert patched(new, answer)["spec"]["ephemeralContainers"] == [
        first, {"name": "b", "env": [MINE]},
    ]  # fmt: skip
    assert why_not(mutated(new, STRICT, **change))[0] == 403
