"""The definitions of our kinds and the code that reads their objects know the same fields."""

from __future__ import annotations

from typing import Any, Final, get_args, get_origin

import msgspec
import pytest
import yaml
from msgspec import Struct
from msgspec.structs import fields

from tessera_core.quota.objects import VERSION, AcceleratorQuotaSpec
from tessera_schema.annotation_keys import GROUP, QUOTA_KIND
from tessera_schema.plans import PLAN_KIND, PLANS, PlanSpec, PlanStatus
from tessera_schema.quotas import QuotaStatus
from tests.deploy.manifests import KUSTOMIZE, Json

FOLDER: Final = KUSTOMIZE / "base/crds"
KINDS: Final[dict[str, tuple[type[Struct], type[Struct]]]] = {
    QUOTA_KIND: (AcceleratorQuotaSpec, QuotaStatus),
    PLAN_KIND: (PlanSpec, PlanStatus),
}
DEFINITIONS: Final[dict[str, Json]] = {
    made["spec"]["names"]["kind"]: made
    for made in (yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml")))
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def release(kind: str) -> Json:
    (found,) = DEFINITIONS[kind]["spec"]["versions"]
    return dict(found)


def schema(kind: str) -> Json:
    return dict(release(kind)["schema"]["openAPIV3Schema"]["properties"])


def read(kind: type[Struct]) -> dict[str, Any]:
    """Field -> fields in it, as they are written."""
    return {f.encode_name: read_in(f.type) for f in fields(kind)}


def read_in(kind: Any) -> dict[str, Any]:
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and get_origin(part) is None and issubclass(part, Struct):
            return read(part)
    return {}


def defined(schema: Json) -> dict[str, Any]:
    """The same of a schema."""
    return {
        name: defined(inner.get("items", inner))
        for name, inner in schema.get("properties", {}).items()
    }


@every_kind
def test_the_schema_has_the_fields_that_are_read_and_written(kind: str) -> None:
    for part, read_as in zip(("spec", "status"), KINDS[kind], strict=True):
        assert defined(schema(kind)[part]) == read(read_as)
        assert len(read(read_as)) > 5


@every_kind
def test_it_is_the_object_that_the_code_requests_for(kind: str) -> None:
    spec = DEFINITIONS[kind]["spec"]
    assert (spec["group"], spec["names"]["kind"]) == (GROUP, kind)
    assert (release(kind)["name"], release(kind)["subresources"]) == (VERSION, {"status": {}})
    plural, version = spec["names"]["plural"], release(kind)["name"]
    assert DEFINITIONS[kind]["metadata"]["name"] == f"{plural}.{GROUP}"
    assert kind != PLAN_KIND or f"/apis/{GROUP}/{version}/{plural}" == PLANS


def test_there_is_no_second_definition() -> None:
    """Helm's chart has copies, which `make generate` writes."""
    root = KUSTOMIZE.parents[1]
    copies = root / "deploy/helm/tessera/crds"
    found = [
        path
        for folder in ("deploy", "libs", "services")
        for path in (root / folder).rglob("*.yaml")
        if "kind: CustomResourceDefinition" in path.read_text(encoding="utf-8")
        and path.parent != copies
    ]
    for path in found:
        copy, made = (yaml.safe_load((at / path.name).read_text()) for at in (copies, FOLDER))
        assert copy["spec"] == made["spec"]
    assert sorted(found) == sorted(FOLDER.glob("*.yaml"))
    assert DEFINITIONS.keys() == KINDS.keys()
    listed = yaml.safe_load((KUSTOMIZE / "base/kustomization.yaml").read_text())["resources"]
    assert {f"crds/{path.name}" for path in found} <= set(listed)


@every_kind
def test_what_it_shows_in_a_list_is_there(kind: str) -> None:
    for column in release(kind)["additionalPrinterColumns"]:
        first, *path = column["jsonPath"].removeprefix(".").split(".")
        if first == "metadata":
            continue
        known: Any = defined(schema(kind)[first])
        for name in path:
            assert name in known, column["jsonPath"]
            known = known[name]


@every_kind
def test_a_status_as_it_is_written_fits(kind: str) -> None:
    status = KINDS[kind][1]
    assert msgspec.to_builtins(status(), str_keys=True).keys() == read(status).keys()


def test_words_that_are_closed_are_closed_in_the_definition() -> None:
    spec, status = schema(PLAN_KIND)["spec"], schema(PLAN_KIND)["status"]
    for part, read_as in ((spec, PlanSpec), (status, PlanStatus)):
        for field in fields(read_as):
            schema_of = part["properties"][field.encode_name]
            words = get_args(field.type) if field.name == "decision" else ()
            closed = list(words) or [*getattr(field.type, "__members__", {}).values()]
            if closed:
                assert schema_of["enum"] == [str(word) for word in closed]
