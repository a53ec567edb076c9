"""The APIService says where to pass requests on to, whatever changes it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec

from tessera_runtime.kube.api import Verb
from tessera_scheduler.visibility.apiservice import PLACE, Address, keep_apiservice
from tests.visibility.api import Plane

ADDRESS = Address(namespace="tessera-system", name="tessera-scheduler", port=8444)


def there(plane: Plane) -> dict[str, Any]:
    found = msgspec.json.decode(plane.store.handle("GET", PLACE.path).body)
    spec: dict[str, Any] = found["spec"]
    return spec


def change(plane: Plane, **spec: Any) -> None:
    body = msgspec.json.encode({"spec": spec})
    kind = "application/merge-patch+json"
    assert plane.store.handle("PATCH", PLACE.path, body=body, content_type=kind).code == 200


def writes(plane: Plane) -> int:
    return sum(verb is not Verb.GET for verb, _ in plane.kube.calls)


async def test_it_is_written_and_left_alone_while_it_is_right(tmp_path: Path) -> None:
    plane = Plane(tmp_path)
    for _ in range(3):
        await keep_apiservice(plane.kube, ADDRESS, b"authority")
    assert writes(plane) == 1
    spec = there(plane)
    assert (spec["group"], spec["version"]) == ("visibility.tessera.dev", "v1alpha1")
    assert spec["service"] == {
        "namespace": "tessera-system", "name": "tessera-scheduler", "port": 8444,
    }  # fmt: skip
    assert base64.b64decode(spec["caBundle"]) == b"authority"
    assert not spec.get("insecureSkipTLSVerify")


async def test_a_new_authority_and_changes_of_others_are_written(tmp_path: Path) -> None:
    plane = Plane(tmp_path)
    await keep_apiservice(plane.kube, ADDRESS, b"old")
    await keep_apiservice(plane.kube, ADDRESS, b"old and new")
    assert base64.b64decode(there(plane)["caBundle"]) == b"old and new"
    change(plane, service={"name": "another"})
    await keep_apiservice(plane.kube, ADDRESS, b"old and new")
    assert there(plane)["service"]["name"] == "tessera-scheduler"
    plane.store.handle("DELETE", PLACE.path)
    await keep_apiservice(plane.kube, ADDRESS, b"old and new")
    assert there(plane)["caBundle"]


async def test_what_an_injector_wrote_as_authority_stays(tmp_path: Path) -> None:
    plane = Plane(tmp_path)
    await keep_apiservice(plane.kube, ADDRESS, b"")
    injected = base64.b64encode(b"injected").decode()
    change(plane, caBundle=injected, service={"port": 1})
    await keep_apiservice(plane.kube, ADDRESS, b"")
    assert (there(plane)["caBundle"], there(plane)["service"]["port"]) == (injected, 8444)
