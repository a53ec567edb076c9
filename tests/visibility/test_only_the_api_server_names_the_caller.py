"""Which callers the aggregated API trusts, and what a user may then read."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest

from tessera_schema.endpoints.visibility import GROUP, PLURAL, ROOT, VERSION
from tests.contract.certificates import Authority
from tests.visibility.api import Plane, asking

BIG = f"{ROOT}/namespaces/team/{PLURAL}/big"


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    plane = Plane(tmp_path)
    plane.pod("big", 20)
    plane.filter_pod("big")
    return plane


async def test_headers_are_worth_nothing_without_the_certificate(plane: Plane) -> None:
    async with asking(plane) as api:
        for user in ("adam", "edith", "system:admin"):
            found = await api.server.send(BIG, user, headers={"X-Remote-Group": "system:masters"})
            assert (found.status, found.body["reason"]) == (401, "Unauthorized")
        assert (await api.get(BIG)).status == 200


async def test_a_certificate_of_another_authority_is_none(plane: Plane) -> None:
    stranger = Authority("front-proxy-ca").server("front-proxy-client")
    async with asking(plane) as api:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await api.server.send(BIG, "adam", shows=stranger)


async def test_another_name_of_the_same_authority_is_not_believed(plane: Plane) -> None:
    another = plane.authority.server("kubelet")
    async with asking(plane) as api:
        assert (await api.server.send(BIG, "adam", shows=another)).status == 401
        assert (await api.server.send(BIG, "", shows=api.shows)).status == 401


async def test_an_authority_that_is_replaced_is_believed_no_longer(plane: Plane) -> None:
    successor = Authority("front-proxy-ca-2")
    async with asking(plane) as api:
        assert (await api.get(BIG)).status == 200
        plane.publish(successor)
        await api.server.until_believed(successor.server("front-proxy-client"))
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await api.get(BIG)


async def test_rights_are_those_of_the_api_server(plane: Plane) -> None:
    plane.pod("secret", 4, namespace="other")
    there = f"{ROOT}/namespaces/other/{PLURAL}"
    async with asking(plane) as api:
        for path in (f"{there}/secret", f"{there}/nosuch", there, f"{ROOT}/{PLURAL}"):
            found = await api.get(path)
            assert (found.status, found.body["reason"]) == (403, "Forbidden"), path
            assert (await api.get(path, "adam")).status == (404 if "nosuch" in path else 200)
        refused = await api.get(BIG, "nobody")
        assert refused.body["message"] == (
            f'{PLURAL}.{GROUP} "big" is forbidden: User "nobody" cannot get resource "{PLURAL}" '
            f'in API group "{GROUP}" in the namespace "team": one of the roles view, edit and '
            "admin allows it"
        )
        none = await api.get(f"{ROOT}/namespaces/team/{PLURAL}/nosuch")
        assert (none.status, none.body["kind"]) == (404, "Status")
        assert none.body["message"] == 'pods "nosuch" not found'


async def test_what_is_served_can_be_found_out(plane: Plane) -> None:
    async with asking(plane) as api:
        groups = (await api.get("/apis", "nobody")).body["groups"]
        assert [g["name"] for g in groups] == [GROUP]
        [version] = (await api.get(f"/apis/{GROUP}")).body["versions"]
        assert version["version"] == VERSION
        kind, queues = (await api.get(ROOT)).body["resources"]
        assert (queues["name"], queues["verbs"]) == ("queuestates", ["list"])
        assert (kind["name"], kind["kind"], kind["namespaced"]) == (PLURAL, "PodExplanation", True)
        assert kind["verbs"] == ["get", "list"]
        assert (await api.get("/openapi/v2")).status == 200
        assert (await api.get("/nowhere")).status == 404
        assert (await api.server.send(BIG, shows=api.shows, method="DELETE")).status == 405
        assert (await api.get(f"{ROOT}/namespaces/team/{PLURAL}?watch=true")).status == 405
