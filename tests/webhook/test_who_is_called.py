"""Conditions under which the API server calls the webhook: nobody else's pods depend on it."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.admission.admit import is_result
from tessera_core.admission.exempt_pods import scope_of
from tessera_core.registry.registry import load
from tessera_embedded.apiserver.admission.cel import evaluate, parse
from tessera_scheduler.webhook import match_conditions
from tessera_scheduler.webhook.registration import (
    RegistrationInput,
    RegistrationSettings,
    configurations,
)
from tessera_schema.annotation_keys import (
    OWNER_KEYS,
    REBALANCE_KEY,
    RESERVE_KEY,
    SCHEDULER,
    TRACE_KEY,
)
from tessera_schema.grants import GRANT_KEY
from tessera_schema.resizes import RESIZE_KEY
from tests.webhook.setting import REGISTRY, WRITERS, Json, a_manifest

NAMES_US = parse(match_conditions.names_us(REGISTRY))
CHANGES = parse(match_conditions.changes_guarded_keys(REGISTRY, [SCHEDULER]))
OTHERS = parse(match_conditions.by_others([WRITERS, "their-plugin"]))
PLACES = scope_of(REGISTRY).places
HAS_KEYS = parse(match_conditions.has_own_keys())


def calls(pod: Json) -> bool:
    return evaluate(NAMES_US, {"object": pod}) is True


@pytest.mark.parametrize("name", sorted(REGISTRY.resources))
def test_every_resource_of_every_dialect_is_reviewed(name: str) -> None:
    assert calls(a_manifest({name: "1"}))


def test_one_container_of_any_kind_is_enough() -> None:
    plain, asking = {"name": "a"}, {"name": "b", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    pod = a_manifest({})
    pod["spec"]["containers"] = [plain, asking]
    assert calls(pod)
    pod["spec"] = {"containers": [plain], "initContainers": [plain, asking]}
    assert calls(pod)


@pytest.mark.parametrize("key", [GRANT_KEY, "volcano.sh/gpu-index", "tencent.com/gpu-mod-idx-3"])
def test_tesseras_keys_are_enough(key: str) -> None:
    assert calls(a_manifest({}, notes={key: "x"}))


@pytest.mark.parametrize("key", sorted(OWNER_KEYS))
def test_owners_may_write_their_preferences(key: str) -> None:
    assert not calls(a_manifest({}, notes={key: "x"}))
    assert is_result(REGISTRY, "tessera.dev/anything")
    assert not is_result(REGISTRY, key)


@pytest.mark.parametrize(
    "pod",
    [
        a_manifest({}), a_manifest({"cpu": "1"}, notes={"example.com/x": "y"}),
        {"metadata": {}, "spec": {"containers": [{"name": "c"}]}},
        {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}},
        a_manifest({"example.com/gpu": "1"}, schedulerName="tessera-scheduler"),
    ],
)  # fmt: skip
def test_others_pods_are_none_of_our_business(pod: Json) -> None:
    assert not calls(pod)


@pytest.mark.parametrize(
    ("pod", "called"),
    [
        (a_manifest(), "us"), (a_manifest(schedulerName=SCHEDULER), "us"),
        (a_manifest(schedulerName="hami-scheduler"), "us"),
        (a_manifest(schedulerName=""), "us"),
        ({"metadata": {}, "spec": {"containers": a_manifest()["spec"]["containers"]}}, "us"),
        (a_manifest(schedulerName="theirs"), "others"),
        (a_manifest(schedulerName="theirs", notes={"mine": "1"}), "others"),
        (a_manifest({}, schedulerName="theirs", notes={"hami.io/vgpu-node": "n"}), "others"),
        (a_manifest({}, schedulerName="theirs", notes={GRANT_KEY: "x"}), "us"),
        (a_manifest({}, schedulerName="theirs", notes={REBALANCE_KEY: "false"}), "plain"),
        (a_manifest({"cpu": "1"}), "plain"), (a_manifest({}, schedulerName=SCHEDULER), "plain"),
    ],
)  # fmt: skip
def test_each_pod_is_of_one_kind(pod: Json, called: str) -> None:
    """Only those of the first kind wait for us."""
    kinds = {
        "us": match_conditions.is_of_us(REGISTRY, PLACES),
        "others": match_conditions.is_of_others(REGISTRY, PLACES),
        "plain": match_conditions.is_plain(REGISTRY),
    }
    found = [kind for kind, cel in kinds.items() if evaluate(parse(cel), {"object": pod}) is True]
    assert found == [called]


def hooks(config: dict[str, Json], **scope: Any) -> dict[str, Json]:
    """The mutating webhooks by name."""
    registry = load(config)
    terms = RegistrationInput(
        namespace="tessera-system", settings=RegistrationSettings(), writers=frozenset(),
        port=1, scope=scope_of(registry, **scope),
    )  # fmt: skip
    (_, mutating), _ = configurations(registry, terms, b"")
    return {hook["name"]: hook for hook in mutating}


def test_only_pods_of_tessera_wait_for_the_webhook() -> None:
    found = hooks({})
    assert {name: hook["failurePolicy"] for name, hook in found.items()} == {
        "admit.tessera.dev": "Fail", "others.tessera.dev": "Ignore",
    }  # fmt: skip
    plain = hooks({"hami": {"overwrite_env": True}})["plain.tessera.dev"]
    assert plain["failurePolicy"] == "Ignore"
    assert plain["rules"] == found["others.tessera.dev"]["rules"]


def test_pods_of_the_default_scheduler_may_be_others_too() -> None:
    for take_default in (True, False):
        (condition,) = hooks({}, take_default=take_default)["admit.tessera.dev"]["matchConditions"]
        called = evaluate(parse(condition["expression"]), {"object": a_manifest()})
        assert called is take_default


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {GRANT_KEY: "x"}, True), ({GRANT_KEY: "x"}, {GRANT_KEY: "y"}, True),
        ({GRANT_KEY: "x"}, {}, True), ({TRACE_KEY: "x"}, {GRANT_KEY: "x"}, True),
        ({}, {"tencent.com/predicate-gpu-idx-0": "1"}, True),
        ({GRANT_KEY: "x"}, {GRANT_KEY: "x", "mine": "1"}, False),
        ({"mine": "1"}, {}, False), ({}, {}, False),
        ({}, {RESERVE_KEY: "x"}, True), ({}, {REBALANCE_KEY: "false"}, False),
        ({REBALANCE_KEY: "false", GRANT_KEY: "x"}, {REBALANCE_KEY: "true"}, True),
        ({}, {RESIZE_KEY: "{}"}, False),
    ],
)  # fmt: skip
def test_only_changes_of_tesseras_keys_are_reviewed(
    before: Json, after: Json, *, changes: bool
) -> None:
    old = a_manifest(notes=before, schedulerName=SCHEDULER)
    new = a_manifest(notes=after, schedulerName=SCHEDULER)
    assert evaluate(CHANGES, {"oldObject": old, "object": new}) is changes


@pytest.mark.parametrize(
    ("scheduler", "before", "after", "changes"),
    [
        ("hami-scheduler", {}, {"hami.io/vgpu-devices-allocated": "x"}, False),
        ("hami-scheduler", {"hami.io/bind-phase": "x"}, {}, False),
        ("hami-scheduler", {}, {GRANT_KEY: "x"}, True),
        ("hami-scheduler", {GRANT_KEY: "x"}, {GRANT_KEY: "x", "volcano.sh/gpu-index": "0"}, True),
        (SCHEDULER, {}, {"hami.io/vgpu-devices-allocated": "x"}, True),
    ],
)
def test_what_other_systems_write_on_their_own_pods_is_not_reviewed(
    scheduler: str, before: Json, after: Json, *, changes: bool
) -> None:
    old = a_manifest(notes=before, schedulerName=scheduler)
    new = a_manifest(notes=after, schedulerName=scheduler)
    assert evaluate(CHANGES, {"oldObject": old, "object": new}) is changes


@pytest.mark.parametrize(
    ("user", "others"),
    [
        ({"username": "jane"}, True), ({"username": "jane", "groups": ["users"]}, True),
        ({"username": "their-plugin"}, False),
        ({"username": "x", "groups": ["system:authenticated", WRITERS]}, False),
    ],
)  # fmt: skip
def test_our_own_writes_do_not_come_back_to_us(user: Json, *, others: bool) -> None:
    assert evaluate(OTHERS, {"request": {"userInfo": user}}) is others


def test_a_binding_with_one_of_tesseras_keys_is_reviewed() -> None:
    def is_reviewed(notes: Json) -> bool:
        return evaluate(HAS_KEYS, {"object": {"metadata": {"annotations": notes}}}) is True

    assert is_reviewed({GRANT_KEY: "x"})
    assert not is_reviewed({"hami.io/vgpu-devices-allocated": "x"})
    assert evaluate(HAS_KEYS, {"object": {"metadata": {"name": "p"}}}) is False
