"""All of it: the command asks an API server, which passes the question on to the process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tessera_cli.explain import explanations
from tessera_cli.kubeconfig import ClusterTarget
from tessera_embedded.apiserver import open_apiserver
from tessera_embedded.ports import reserved_ports
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.endpoints.visibility import PodExplanation
from tests.scheduler.fake_cluster import HOME
from tests.scheduler.test_the_process_runs import (
    a_process,
    environment,
    make,
    place,
    prepare,
    ready,
)

APISERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.tessera.dev"
SERVICE = {
    "metadata": {"name": "tessera-scheduler"},
    "spec": {"type": "ExternalName", "externalName": "localhost"},
}


async def explained(target: ClusterTarget, name: str) -> PodExplanation:
    async with asyncio.timeout(60):
        while True:
            try:
                return await explanations.read_explanation(target, name, cards=True)
            except explanations.NotExplained:
                await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_pod_is_explained_through_the_api_server(tmp_path: Path) -> None:
    with reserved_ports(1) as [port]:
        async with (
            open_apiserver(tmp_path / "api", keep=False) as server,
            open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
        ):
            await prepare(kube)
            await make(kube, f"/api/v1/namespaces/{HOME}/services", SERVICE)
            ports = tmp_path / "ports.json"
            environ = environment(server, ports) | {
                "TESSERA_VISIBILITY_HTTP_PORT": str(port),
                "TESSERA_VISIBILITY_SERVICE_PORT": str(port),
            }
            async with a_process(environ, tmp_path / "log"):
                await place(kube, await ready(ports), "a")
                target = ClusterTarget(kubeconfig=str(server.kubeconfig))
                found = await explained(target, "a")
                assert (found.verdict, found.node) == ("placed", "n0")
                [node] = found.nodes
                names = [holder.name for card in node.cards for holder in card.holders]
                assert names == ["a"]
                await kube.call(Verb.DELETE, APISERVICE)
                with pytest.raises(explanations.NotExplained, match="the cluster has no API"):
                    await explanations.read_explanation(target, "a")
