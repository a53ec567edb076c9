"""From one overlay to another and back is one apply, on a real API server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.contract.client import Client, Json, open_client
from tests.contract.real import ControlPlane, programs, real_control_plane
from tests.contract.session_fixtures import or_skip
from tests.deploy.installed import NAMESPACE, apply
from tests.deploy.manifests import kubectl

SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ONE: Final = {"tessera-nats": 1, "tessera-nats-cluster": 0}
THREE: Final = {"tessera-nats": 0, "tessera-nats-cluster": 3}
STEPS: Final = (
    ("single-node", ONE), ("production", THREE), ("single-node", ONE), ("dev", ONE),
    ("production", THREE), ("dev", ONE),
)  # fmt: skip
KINDS: Final = {
    "Certificate": "cert-manager.io/v1",
    "Issuer": "cert-manager.io/v1",
    "PodMonitor": "monitoring.coreos.com/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
}


def definition(kind: str) -> Json:
    """A kind that `production` needs from others, with any fields."""
    group, version = KINDS[kind].split("/")
    singular = kind.lower()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": f"{singular}s", "singular": singular},
            "versions": [{
                "name": version, "served": True, "storage": True,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }  # fmt: skip


async def servers(admin: Client) -> dict[str, int]:
    """NATS servers that each StatefulSet wants."""
    found = (await admin.get(SETS)).done["items"]
    return {item["metadata"]["name"]: item["spec"]["replicas"] for item in found}


async def serves(admin: Client) -> bool:
    """Whether the kinds of others can be written."""
    paths = [f"/apis/{KINDS[kind]}/{kind.lower()}s" for kind in KINDS]
    return all([(await admin.get(path)).status == 200 for path in paths])


async def taken(plane: ControlPlane) -> None:
    async with open_client(plane.url, plane.ca_path, plane.token) as admin:
        for kind in KINDS:
            (await admin.post(CRDS, definition(kind))).done  # noqa: B018  (checks)
        async with asyncio.timeout(60):
            while not await serves(admin):
                await asyncio.sleep(0.2)
        for overlay, wanted in STEPS:
            await asyncio.to_thread(apply, plane, overlay)
            assert await servers(admin) == wanted, overlay


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_every_overlay_follows_every_other(tmp_path: Path) -> None:
    kubectl()
    with or_skip():
        programs()
    async with real_control_plane(tmp_path) as plane:
        await taken(plane)
