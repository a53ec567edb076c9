"""kubectl's own way of writing, its validation switched on as it is by default."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from tests.contract.client import Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.kubebin import kube_bin
from tests.contract.session_fixtures import or_skip

pytestmark = pytest.mark.timeout(120)


class Kubectl:
    """kubectl as the administrator of a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        server, self._cluster = cluster.server, cluster
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": server.url, "certificate-authority": str(server.ca_path)}}],
            "users": [{"name": "u", "user": {"token": server.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        self._config = folder / "kubeconfig"
        self._config.write_text(json.dumps(config))
        self._cache = folder / "cache"
        with or_skip():
            self._program = kube_bin("kubectl") / "kubectl"

    async def __call__(self, verb: str, body: Json | None = None, *more: str) -> tuple[int, str]:
        """Its status, and all that it says."""
        file = () if body is None else ("-f", "-")
        process = await asyncio.create_subprocess_exec(
            self._program, f"--kubeconfig={self._config}", f"--cache-dir={self._cache}",
            f"--namespace={self._cluster.own}", verb, *file, *more,
            stdin=PIPE, stdout=PIPE, stderr=STDOUT,
        )  # fmt: skip
        said, _ = await process.communicate(json.dumps(body or {}).encode())
        return process.returncode or 0, said.decode().strip()


def a_map(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


async def test_create_and_apply_need_no_switch(open_cluster: OpenCluster, tmp_path: Path) -> None:
    async with open_cluster() as cluster:
        kubectl = Kubectl(cluster, tmp_path)
        assert await kubectl("create", a_map(a="1"), "--save-config") == (
            0, "configmap/m created",
        )  # fmt: skip
        assert await kubectl("apply", a_map(b="2")) == (0, "configmap/m configured")
        assert await kubectl("apply", a_map(b="2")) == (0, "configmap/m unchanged")
        stored = (await cluster.admin.get(cluster.path("configmaps", name="m"))).done
        assert stored["data"] == {"b": "2"}
        assert (await kubectl("delete", a_map()))[0] == 0


async def test_a_field_that_is_not_known_is_refused(
    open_cluster: OpenCluster, tmp_path: Path
) -> None:
    async with open_cluster() as cluster:
        kubectl = Kubectl(cluster, tmp_path)
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "kontainers": []},
        }  # fmt: skip
        for verb in ("create", "apply"):
            status, said = await kubectl(verb, pod)
            assert (status, 'unknown field "spec.kontainers"' in said) == (1, True)
