"""What the scheduler registers names a ClusterRole as owner: the one that is there, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_embedded.apiserver import open_apiserver
from tessera_runtime.errors import ApiNotFound
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_scheduler.webhook.owner import has_owner, owner_reference, with_owner
from tests.contract.client import Json


def an_owner(uid: str, name: str = "tessera-scheduler", kind: str = "ClusterRole") -> Json:
    group = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, "name": name, "uid": uid}


def owned_by(*owners: Json) -> Json:
    return {"metadata": {"name": "tessera", "ownerReferences": list(owners)}}


def test_a_role_that_was_created_again_takes_the_place_of_the_former() -> None:
    other = an_owner("9", "another")
    there = owned_by(an_owner("1"), other)
    assert not has_owner(there, an_owner("2"))
    assert with_owner(there, an_owner("2")) == owned_by(other, an_owner("2"))
    assert there == owned_by(an_owner("1"), other)


def test_an_owner_that_is_named_is_left_as_it_is() -> None:
    there = owned_by({**an_owner("1"), "blockOwnerDeletion": False})
    assert has_owner(there, an_owner("1"))
    assert with_owner(there, an_owner("1")) is there


@pytest.mark.parametrize("there", [{"metadata": {"name": "tessera"}}, owned_by(an_owner("1"))])
def test_without_an_owner_to_name_nothing_changes(there: Json) -> None:
    assert with_owner(there, None) is there


async def test_without_its_owner_nothing_is_registered(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path) as server:
        settings = KubeSettings(kubeconfig=str(server.kubeconfig))
        async with open_kube(settings) as kube:
            assert await owner_reference(kube, "") is None
            with pytest.raises(ApiNotFound):
                await owner_reference(kube, "tessera-scheduler")
