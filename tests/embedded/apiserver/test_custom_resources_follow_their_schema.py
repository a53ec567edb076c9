"""A schema fills in, drops and refuses; what is no schema is refused itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.setting import STRATEGIC, ASmallCluster, Json, Said

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/a.dev/v1/namespaces/default/things"
SPEC: Json = {
    "type": "object",
    "required": ["mode"],
    "properties": {
        "mode": {"type": "string", "enum": ["soft", "hard"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 8, "default": 1},
        "share": {"type": "number"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "port": {"x-kubernetes-int-or-string": True},
        "nodes": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"}, "on": {"type": "boolean", "default": True},
                },
            },
        },
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}  # fmt: skip


def a_definition(spec: Any = SPEC, *, name: str = "v1") -> Json:
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    version = {
        "name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    return {
        "metadata": {"name": "things.a.dev"},
        "spec": {
            "group": "a.dev", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "things", "kind": "Thing"},
        },
    }  # fmt: skip


def a_thing(spec: Json) -> Said:
    cluster = ASmallCluster()
    assert cluster.post(DEFINITIONS, a_definition()).code == 201
    body = {"kind": "Thing", "apiVersion": "a.dev/v1", "metadata": {"name": "t"}, "spec": spec}
    return cluster.post(THINGS, body)


def test_defaults_are_filled_in_and_strangers_dropped() -> None:
    nodes = [{"id": "a", "odd": 1}, {"id": "b", "on": False}]
    free = {"any": {"thing": [1]}}
    made = a_thing({"mode": "soft", "odd": 1, "nodes": nodes, "limits": {"x": 1}, "free": free})
    assert made.done["spec"] == {
        "mode": "soft", "count": 1, "limits": {"x": 1}, "free": free,
        "nodes": [{"id": "a", "on": True}, {"id": "b", "on": False}],
    }  # fmt: skip
    reported = {warning.split('"')[2].rstrip("\\") for warning in made.warnings}
    assert reported == {"spec.odd", "spec.nodes[0].odd"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.mode"),
        ({"mode": "medium"}, "spec.mode"),
        ({"mode": 1}, "spec.mode"),
        ({"mode": "soft", "count": 0}, "spec.count"),
        ({"mode": "soft", "count": 9}, "spec.count"),
        ({"mode": "soft", "count": 1.5}, "spec.count"),
        ({"mode": "soft", "count": True}, "spec.count"),
        ({"mode": "soft", "share": "1"}, "spec.share"),
        ({"mode": "soft", "name": "A"}, "spec.name"),
        ({"mode": "soft", "name": "toolong"}, "spec.name"),
        ({"mode": "soft", "port": 1.5}, "spec.port"),
        ({"mode": "soft", "nodes": [{}]}, "spec.nodes[0].id"),
        ({"mode": "soft", "nodes": [{"id": "a"}] * 3}, "spec.nodes"),
        ({"mode": "soft", "limits": {"x": "1"}}, "spec.limits.x"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_by_its_field(spec: Json, field: str) -> None:
    answer = a_thing(spec)
    assert answer.refusal == (422, "Invalid")
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    "definition",
    [
        a_definition({"type": "thing"}),
        a_definition({"type": "object", "properties": []}),
        a_definition({"type": "string", "pattern": "("}),
        a_definition({"type": "array", "items": "x"}),
        a_definition([]),
        a_definition(name="V_1"),
        a_definition(name=""),
    ],
)
def test_what_is_no_schema_is_refused(definition: Json) -> None:
    assert ASmallCluster().post(DEFINITIONS, definition).refusal == (422, "Invalid")


def test_a_custom_resource_takes_no_strategic_patch() -> None:
    cluster = ASmallCluster()
    cluster.post(DEFINITIONS, a_definition())
    body = {"kind": "Thing", "apiVersion": "a.dev/v1", "metadata": {"name": "t"},
            "spec": {"mode": "soft"}}  # fmt: skip
    cluster.post(THINGS, body)
    answer = cluster.patch(f"{THINGS}/t", {"spec": {"mode": "hard"}}, STRATEGIC)
    assert answer.refusal == (415, "UnsupportedMediaType")
