"""AcceleratorQuota's definition and the code that reads its objects know the same fields."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
import yaml
from msgspec import Struct
from msgspec.structs import fields

from tessera_core.limits import VERSION, AcceleratorQuotaSpec
from tessera_schema.keys import GROUP, QUOTA_KIND
from tessera_schema.quotas import QuotaStatus
from tests.deploy.manifests import KUSTOMIZE, Json

DEFINITION: Json = yaml.safe_load((KUSTOMIZE / "base/crds/acceleratorquotas.yaml").read_text())
(RELEASE,) = DEFINITION["spec"]["versions"]
PARTS: dict[str, type[Struct]] = {"spec": AcceleratorQuotaSpec, "status": QuotaStatus}


def read(kind: type[Struct]) -> dict[str, Any]:
    """Field -> fields in it, as they are written."""
    return {f.encode_name: read_in(f.type) for f in fields(kind)}


def read_in(kind: Any) -> dict[str, Any]:
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, Struct):
            return read(part)
    return {}


def defined(schema: Json) -> dict[str, Any]:
    """The same of a schema."""
    return {
        name: defined(inner.get("items", inner))
        for name, inner in schema.get("properties", {}).items()
    }


@pytest.mark.parametrize("part", PARTS)
def test_the_schema_has_the_fields_that_are_read_and_written(part: str) -> None:
    schema = RELEASE["schema"]["openAPIV3Schema"]["properties"][part]
    assert defined(schema) == read(PARTS[part])
    assert len(read(PARTS[part])) > 5


def test_it_is_the_object_that_the_code_asks_for() -> None:
    spec = DEFINITION["spec"]
    assert (spec["group"], spec["names"]["kind"]) == (GROUP, QUOTA_KIND)
    assert (RELEASE["name"], RELEASE["subresources"]) == (VERSION, {"status": {}})


def test_there_is_no_second_definition() -> None:
    root = KUSTOMIZE.parents[1]
    found = [
        path
        for folder in ("deploy", "libs", "services")
        for path in (root / folder).rglob("*.yaml")
        if "kind: CustomResourceDefinition" in path.read_text(encoding="utf-8")
    ]
    assert found == [KUSTOMIZE / "base/crds/acceleratorquotas.yaml"]


def test_what_it_shows_in_a_list_is_there() -> None:
    properties = RELEASE["schema"]["openAPIV3Schema"]["properties"]
    for column in RELEASE["additionalPrinterColumns"]:
        first, *path = column["jsonPath"].removeprefix(".").split(".")
        if first == "metadata":
            continue
        known: Any = defined(properties[first])
        for name in path:
            assert name in known, column["jsonPath"]
            known = known[name]


def test_a_status_as_it_is_written_fits() -> None:
    written = msgspec.to_builtins(QuotaStatus(), str_keys=True)
    assert written.keys() == read(QuotaStatus).keys()
