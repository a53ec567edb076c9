"""Whatever comes in, an answer goes out, and what is kept stays whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from tessera_embedded.apiserver.kinds.fields import shape_of, table
from tests.embedded.apiserver.setting import (
    JSON_PATCH,
    MERGE,
    NODES,
    PODS,
    STRATEGIC,
    ASmallCluster,
    Json,
    a_pod,
)

KINDS = {
    "Pod": PODS,
    "Node": NODES,
    "Namespace": "/api/v1/namespaces",
    "Secret": "/api/v1/namespaces/default/secrets",
    "Event": "/api/v1/namespaces/default/events",
    "ResourceQuota": "/api/v1/namespaces/default/resourcequotas",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    ),
    "ValidatingAdmissionPolicy": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    ),
}
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1, 1.5, True, "", "x", "1Gi", [], {}, [None], [{}], {"a": 1}]
)
PLAIN = {
    "str": st.sampled_from(["", "a", "Always", "Fail", "Namespaced", "object.a", "https://a/b"]),
    "int": st.integers(-2, 10**10),
    "bool": st.booleans(),
    "quantity": st.sampled_from(["1", "0.5", 2.5, "1Gi", "-1", "9" * 30, "1e400", "x"]),
}


def values(code: str, depth: int) -> st.SearchStrategy[Any]:
    """Values of a field's type, and now and then of another."""
    shape = shape_of(code)
    right: st.SearchStrategy[Any]
    if depth > 5 or shape.name == "any":
        return JUNK
    if shape.name == "[":
        right = st.deferred(lambda: st.lists(values(shape.inner, depth + 1), max_size=2))
    elif shape.name == "{":
        keys = st.sampled_from(["a", "cpu", "a.dev/gpu", ""])
        right = st.deferred(
            lambda: st.dictionaries(keys, values(shape.inner, depth + 1), max_size=2)
        )
    elif shape.name in table():
        right = st.deferred(lambda: objects(shape.name, depth + 1))
    else:
        right = PLAIN.get(shape.name, st.sampled_from(["1", "2026-01-01T00:00:00Z", 1, "=="]))
    return st.one_of(right, right, right, JUNK)


def objects(kind: str, depth: int = 0) -> st.SearchStrategy[Json]:
    """Objects of a kind: some of its fields, with values of their types and of others."""
    fields = {name: shape for name, shape in table()[kind].items() if name != "metadata"}
    optional = {
        name: values(shape.code + ("?" if shape.fleeting else ""), depth)
        for name, shape in fields.items()
    }
    return st.fixed_dictionaries({}, optional=optional)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_object_is_taken_or_refused_by_name(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    body = data.draw(objects(kind))
    cluster = ASmallCluster()
    answer = cluster.post(KINDS[kind], {**body, "metadata": {"name": "a"}})
    assert answer.code in {201, 400, 422}
    if answer.code == 201:
        stored = cluster.get(f"{KINDS[kind]}/a").done
        assert cluster.put(f"{KINDS[kind]}/a", stored).done == stored
    else:
        assert answer.body["message"]


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from([MERGE, STRATEGIC, JSON_PATCH]),
    st.recursive(
        JUNK,
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["spec", "status", "metadata", "labels", "conditions", "$patch"]),
                inner,
            )
        ),
        max_leaves=8,
    ),
    st.sampled_from(["", "/status"]),
)
def test_any_patch_is_taken_or_refused(kind: str, patch: Any, door: str) -> None:
    cluster = ASmallCluster()
    cluster.pod()
    answer = cluster.patch(f"{PODS}/p{door}", patch, kind)
    assert answer.code in {200, 400, 409, 422}


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE"]),
    st.lists(
        st.sampled_from(["api", "apis", "v1", "pods", "namespaces", "default", "p", "status", "",
                         "binding", "eviction", "nodes", "..", "%2f", "token"]),
        max_size=8,
    ),
    st.binary(max_size=20) | st.just(b"{}"),
)  # fmt: skip
def test_any_path_gets_an_answer(method: str, parts: list[str], body: bytes) -> None:
    cluster = ASmallCluster()
    answer = cluster.store.handle(method, "/" + "/".join(parts), body=body)
    assert 200 <= answer.code < 500


@pytest.mark.parametrize("depth", [200, 900, 100_000])
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", PODS, "application/json"),
        ("PUT", f"{PODS}/p", "application/json"),
        ("PATCH", f"{PODS}/p", MERGE),
        ("PATCH", f"{PODS}/p", STRATEGIC),
        ("PATCH", f"{PODS}/p", JSON_PATCH),
        ("POST", f"{PODS}/p/binding", "application/json"),
        ("DELETE", f"{PODS}/p", "application/json"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "application/json"),
    ],
)
def test_what_is_too_deep_is_refused(method: str, path: str, kind: str, depth: int) -> None:
    cluster = ASmallCluster()
    cluster.pod()
    deep = b'{"spec":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    if kind == JSON_PATCH:
        deep = b'[{"op":"add","path":"/spec/a","value":' + deep + b"}]"
    answer = cluster.store.handle(method, path, None, deep, kind)
    assert depth == 200 or answer.code in {400, 422}
    assert msgspec.json.decode(answer.body)["kind"]


class Cluster(RuleBasedStateMachine):
    """Random writers; a watcher's picture and a list must agree whenever they are compared."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ASmallCluster()
        self.watch = self.cluster.watch(PODS)
        self.seen: dict[str, Json] = {}
        self.newest = 0

    @rule(target=names, name=st.sampled_from("abcdef"))
    def name(self, name: str) -> str:
        """A name to be used by the other rules."""
        return name

    @rule(name=names, held=st.booleans())
    def create(self, name: str, *, held: bool) -> None:
        """Somebody creates a pod."""
        pod = a_pod(name)
        if held:
            pod["metadata"]["finalizers"] = ["a.dev/x"]
        assert self.cluster.post(PODS, pod).code in {201, 409}

    @rule(name=names, node=st.sampled_from(["m", "n"]))
    def bind(self, name: str, node: str) -> None:
        """Somebody binds it; never is it bound again."""
        before = self.cluster.get(f"{PODS}/{name}")
        body = {"target": {"name": node}}
        code = self.cluster.post(f"{PODS}/{name}/binding", body).code
        free = before.code == 200 and "nodeName" not in before.body["spec"]
        ending = before.code == 200 and "deletionTimestamp" in before.body["metadata"]
        assert (code == 201) == (free and not ending)

    @rule(name=names, grace=st.sampled_from(["", "0", "5"]))
    def delete(self, name: str, grace: str) -> None:
        """Somebody deletes it, now or later."""
        assert self.cluster.delete(f"{PODS}/{name}", gracePeriodSeconds=grace).code in {200, 404}

    @rule(name=names)
    def let_go(self, name: str) -> None:
        """Its finalizers are taken away."""
        answer = self.cluster.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
        assert answer.code in {200, 404}

    @rule(name=names, value=st.sampled_from("xyz"))
    def label(self, name: str, value: str) -> None:
        """Somebody labels it."""
        answer = self.cluster.patch(f"{PODS}/{name}", {"metadata": {"labels": {"k": value}}})
        assert answer.code in {200, 404}

    @invariant()
    def the_watcher_has_what_a_list_shows(self) -> None:
        """Every event is newer than the last; together they make the list."""
        for frame in self.watch.pull():
            event = msgspec.json.decode(frame)
            pod = event["object"]
            version = int(pod["metadata"]["resourceVersion"])
            assert version > self.newest
            self.newest = version
            if event["type"] == "DELETED":
                del self.seen[pod["metadata"]["name"]]
            else:
                self.seen[pod["metadata"]["name"]] = {
                    k: v for k, v in pod.items() if k not in {"kind", "apiVersion"}
                }
        items = self.cluster.get(PODS).done["items"]
        assert {item["metadata"]["name"]: item for item in items} == self.seen


TestCluster = Cluster.TestCase
TestCluster.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
