"""The demo's services may do what the same services may do in a cluster, and no more."""

from __future__ import annotations

from tessera_demo.accounts import AGENT, EDITOR, RESIZER, SCHEDULER, accounts, token_of
from tessera_embedded.apiserver.access import Access, Attempt
from tessera_embedded.apiserver.http_types import AuthenticatedUser

KNOWN = {account.token_name: account for account in accounts(["one", "two"])}


def may(token: str, attempt: Attempt) -> bool:
    account, access = KNOWN[token], Access()
    user = AuthenticatedUser(account.name, groups=account.groups)
    access.give("t", user, account.rules)
    return access.allows(user, attempt)


def test_services_have_the_rules_of_their_roles() -> None:
    assert may(SCHEDULER, Attempt("create", "", "pods", "binding", "team"))
    assert not may(SCHEDULER, Attempt("delete", "", "pods", "", "team"))
    keys = Attempt("get", "", "secrets", "", "tessera-system", "tessera-grant-signing")
    assert may(SCHEDULER, keys)
    assert not may(token_of(AGENT, "one"), keys)
    elsewhere = Attempt("get", "", "secrets", "", "team", "tessera-grant-signing")
    assert not may(SCHEDULER, elsewhere)


def test_an_agents_token_says_its_node() -> None:
    one, two = KNOWN[token_of(AGENT, "one")], KNOWN[token_of(AGENT, "two")]
    assert one.name == two.name
    assert [list(account.extra.values()) for account in (one, two)] == [[("one",)], [("two",)]]


def test_one_user_resizes_and_another_only_edits() -> None:
    resize = Attempt("update", "", "pods", "resize", "lending", "p")
    assert (may(RESIZER, resize), may(EDITOR, resize)) == (True, False)
    assert may(EDITOR, Attempt("patch", "", "pods", "", "lending", "p"))
