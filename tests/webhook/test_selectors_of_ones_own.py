"""Labels of namespaces and pods by which new pods are left out of the webhook."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tessera_core.admission.exempt_pods import scope_of
from tessera_runtime.errors import BadSettings
from tessera_scheduler.webhook.registration import (
    RegistrationInput,
    RegistrationSettings,
    configurations,
)
from tests.webhook.cluster import KINDS, SETTINGS, open_cluster, the_webhook
from tests.webhook.setting import REGISTRY, Json

LEFT = {
    "key": "kubernetes.io/metadata.name", "operator": "NotIn",
    "values": ["kube-system", "tessera-system"],
}  # fmt: skip
TEAM: Json = {"matchLabels": {"team": "research"}}
NOT_OLD: Json = {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}


def hooks(settings: RegistrationSettings) -> dict[str, Json]:
    terms = RegistrationInput(
        namespace="tessera-system", settings=settings, writers=frozenset(), port=1,
        scope=scope_of(REGISTRY),
    )  # fmt: skip
    (_, mutating), (_, validating) = configurations(REGISTRY, terms, b"")
    return {hook["name"].partition(".")[0]: hook for hook in (*mutating, *validating)}


def selectors(hook: Json) -> tuple[Any, Any]:
    return hook["namespaceSelector"], hook["objectSelector"]


def test_without_them_all_pods_are_reviewed_but_those_of_left_out_namespaces() -> None:
    for name, hook in hooks(RegistrationSettings()).items():
        assert selectors(hook) == ({"matchExpressions": [LEFT]}, {}), name


def test_new_pods_are_selected_and_keys_are_guarded_everywhere() -> None:
    chosen = RegistrationSettings(
        namespace_selector=json.dumps(TEAM), object_selector=json.dumps(NOT_OLD)
    )
    for name, hook in hooks(chosen).items():
        if name in {"keys", "bindings"}:
            assert selectors(hook) == ({"matchExpressions": [LEFT]}, {}), name
        else:
            assert selectors(hook) == ({**TEAM, "matchExpressions": [LEFT]}, NOT_OLD), name
    both = RegistrationSettings(namespace_selector=json.dumps(NOT_OLD))
    expressions = [LEFT, *NOT_OLD["matchExpressions"]]
    assert hooks(both)["admit"]["namespaceSelector"] == {"matchExpressions": expressions}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("team=research", "malformed"),
        ('{"labels": {}}', "labels"),
        ('{"matchLabels": {"team": 1}}', "int"),
        ('{"matchExpressions": [{"key": "a", "operator": "Is"}]}', "Is"),
        ('{"matchExpressions": [{"key": "a", "operator": "In"}]}', "need values"),
        ('{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}', "none"),
    ],
)
@pytest.mark.parametrize("field", ["namespace_selector", "object_selector"])
def test_nonsense_is_refused_at_the_start(field: str, text: str, why: str) -> None:
    with pytest.raises(BadSettings, match=why) as refused:
        RegistrationSettings(**{field: text}).check()  # type: ignore[arg-type]
    assert f"registration.{field}" in str(refused.value)


PODS = "/api/v1/namespaces/team/pods"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_selector_that_is_taken_back_selects_no_more(kind: str, tmp_path: Path) -> None:
    registration = msgspec.structs.replace(
        SETTINGS.registration, object_selector=json.dumps(NOT_OLD)
    )
    choosing = msgspec.structs.replace(SETTINGS, registration=registration)
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    old: Json = {
        "metadata": {"name": "p", "labels": {"old": ""}}, "spec": {"containers": [container]},
    }  # fmt: skip
    async with open_cluster(kind, tmp_path) as cluster:
        for settings, scheduler in (
            (choosing, "default-scheduler"), (SETTINGS, "tessera-scheduler"),
        ):  # fmt: skip
            async with the_webhook(cluster, settings=settings), asyncio.timeout(30):
                while True:
                    made = await cluster.admin.post(PODS, old, dryRun="All")
                    if made.body.get("spec", {}).get("schedulerName") == scheduler:
                        break
                    await asyncio.sleep(0.05)
