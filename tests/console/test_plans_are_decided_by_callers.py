"""Decisions are the caller's own: its token, its rights, the plan that it saw."""

from __future__ import annotations

import json

import pytest

from tessera_embedded.apiserver.access import Rule
from tessera_embedded.apiserver.http_types import AuthenticatedUser
from tests.console.scene import ADMIN, Scene, small_scene
from tests.console.test_a_tenant_sees_its_own import calling

PATH = "/api/plans/defragment-7f3a/decision"
PLAN = "/apis/tessera.dev/v1alpha1/rebalanceplans/defragment-7f3a"
READER = "token-of-a-reader"


def spec_of(scene: Scene) -> dict[str, object]:
    found: dict[str, object] = json.loads(scene.store.handle("GET", PLAN).body)["spec"]
    return found


def version_of(scene: Scene) -> str:
    found: str = json.loads(scene.store.handle("GET", PLAN).body)["metadata"]["resourceVersion"]
    return found


@pytest.mark.parametrize("decision", ["approved", "declined"])
async def test_who_may_edit_plans_decides(decision: str) -> None:
    scene = small_scene()
    async with calling(ADMIN, scene, acts=True) as wire:
        body = {"decision": decision, "version": version_of(scene)}
        status, answer = await wire.post(PATH, body)
    assert (status, answer["spec"]["decision"]) == (200, decision)
    assert spec_of(scene)["decidedBy"] == "admin"


async def test_it_only_reads_unless_it_is_set() -> None:
    scene = small_scene()
    async with calling(ADMIN, scene) as wire:
        status, answer = await wire.post(
            PATH, {"decision": "approved", "version": version_of(scene)}
        )
    assert status == 403
    assert "TESSERA_ACTS" in answer["error"]
    assert "decision" not in spec_of(scene)


async def test_a_reader_of_plans_does_not_decide() -> None:
    scene = small_scene()
    rules = [Rule(("list",), ("rebalanceplans",), groups=("tessera.dev",)),
             Rule(("list",), ("pods",))]  # fmt: skip
    reader = AuthenticatedUser("reader", groups=("system:authenticated",))
    scene.store.access.give(READER, reader, rules)
    async with calling(READER, scene, acts=True) as wire:
        meta = (await wire.first())["put"]["meta"]
        status, answer = await wire.post(
            PATH, {"decision": "approved", "version": version_of(scene)}
        )
    assert (meta["plans"], meta["decides"], status) == (True, False, 403)
    assert "your rights do not allow it" in answer["error"]
    assert "decision" not in spec_of(scene)


async def test_a_plan_that_has_changed_is_not_decided_on() -> None:
    scene = small_scene()
    seen = version_of(scene)
    scene.patch(PLAN, {"spec": {"gain": 1}})
    async with calling(ADMIN, scene, acts=True) as wire:
        status, answer = await wire.post(PATH, {"decision": "approved", "version": seen})
    assert status == 409
    assert "has changed" in answer["error"]


async def test_nobody_decides_where_access_is_open() -> None:
    scene = small_scene()
    async with calling("", scene, acts=True, access="open") as wire:
        status, _ = await wire.post(PATH, {"decision": "approved", "version": version_of(scene)})
    assert status == 403
    assert "decision" not in spec_of(scene)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"decision": "perhaps", "version": "1"}, "perhaps"),
        ({"decision": "approved"}, "version"),
        ({"decision": "approved", "version": "1", "by": "me"}, "by"),
    ],
)
async def test_a_bad_body_is_named(body: dict[str, str], part: str) -> None:
    async with calling(ADMIN, small_scene(), acts=True) as wire:
        status, answer = await wire.post(PATH, body)
    assert status == 400
    assert part in answer["error"]
