"""What authentication says of a caller, and which objects its roles name."""

from __future__ import annotations

import pytest

from tessera_embedded.apiserver.access import Rule, user_info
from tessera_embedded.apiserver.http_types import AuthenticatedUser
from tests.embedded.apiserver.setting import ASmallCluster

MAPS = "/api/v1/namespaces/default/configmaps"


def test_what_else_is_known_of_a_caller_is_reported_to_admission() -> None:
    info = user_info(
        AuthenticatedUser("agent", extra={"authentication.kubernetes.io/node-name": ("one",)})
    )
    assert info == {
        "username": "agent",
        "extra": {"authentication.kubernetes.io/node-name": ["one"]},
    }
    assert user_info(AuthenticatedUser("agent")) == {"username": "agent"}


@pytest.mark.parametrize(
    ("selector", "code"),
    [("metadata.name=keys", 200), ("metadata.name==keys", 200), ("metadata.name=other", 403),
     ("", 403), ("metadata.name=keys,metadata.namespace=default", 200),
     ("metadata.name!=keys", 403)],
)  # fmt: skip
def test_a_role_that_names_an_object_lets_it_be_listed_alone(selector: str, code: int) -> None:
    cluster = ASmallCluster()
    reader = AuthenticatedUser("reader", groups=("system:authenticated",))
    cluster.store.access.give("t", reader, [Rule(("list",), ("configmaps",), names=("keys",))])
    cluster.user = reader
    assert cluster.get(MAPS, fieldSelector=selector).code == code
