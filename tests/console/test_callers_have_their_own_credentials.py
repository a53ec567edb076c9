"""What is done for a caller is done as that caller, whatever this process could do itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tessera_console.caller_api import open_callers
from tessera_console.rights import CallerScope, ConsoleCaller
from tessera_embedded.apiserver import Account, open_apiserver
from tessera_runtime.errors import ApiForbidden
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def name_of(kube: Kube) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = json.loads(await kube.call(Verb.POST, REVIEW, body=json.dumps(body).encode()))
    found: str = answer["status"]["userInfo"]["username"]
    return found


async def test_the_api_server_sees_the_caller(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path, accounts=[Account("tenant")], keep=False) as server:
        settings = KubeSettings(kubeconfig=str(server.kubeconfig))
        tenant = ConsoleCaller(name="tenant", token=server.tokens["tenant"], scope=CallerScope())
        async with (
            open_kube(settings) as own,
            open_callers(settings, own) as kube_of,
            kube_of(tenant) as kube,
        ):
            assert await name_of(own) != "tenant"
            assert await name_of(kube) == "tenant"
            with pytest.raises(ApiForbidden):
                await kube.call(Verb.GET, paths.NODES)
