"""ValidatingAdmissionPolicies deny, warn, or let pass, as their bindings say."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_embedded.apiserver import AuthenticatedUser
from tests.embedded.apiserver.setting import NODES, PODS, ASmallCluster, Json, a_pod

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
OWN = "k.startsWith('a.dev/')"
CHANGED = (
    f"!has(object.metadata.annotations) || object.metadata.annotations.all(k, !({OWN}) || "
    "(oldObject != null && has(oldObject.metadata.annotations) && k in "
    "oldObject.metadata.annotations && oldObject.metadata.annotations[k] == "
    "object.metadata.annotations[k]))"
)
KEYED: Json = {"metadata": {"annotations": {"a.dev/k": "v"}}}


def rule(*resources: str, group: str = "", operations: tuple[str, ...] = ("*",)) -> Json:
    return {
        "apiGroups": [group], "apiVersions": ["*"], "resources": list(resources),
        "operations": list(operations),
    }  # fmt: skip


def a_policy(expression: str, *rules: Json, **spec: Any) -> Json:
    validation = {"expression": expression, **spec.pop("reported", {})}
    return {
        "metadata": {"name": "policy"},
        "spec": {
            "matchConstraints": {"resourceRules": list(rules) or [rule("pods", "pods/status")]},
            "validations": [validation],
            **spec,
        },
    }


def a_guarded_cluster(policy: Json, *actions: str, **binding: Any) -> ASmallCluster:
    cluster = ASmallCluster()
    assert cluster.post(POLICIES, policy).code == 201
    spec = {"policyName": "policy", "validationActions": list(actions or ("Deny",)), **binding}
    bound = {"metadata": {"name": "binding"}, "spec": spec}
    assert cluster.post(BINDINGS, bound).code == 201
    return cluster


def with_key(name: str = "p") -> Json:
    pod = a_pod(name)
    pod["metadata"]["annotations"] = {"a.dev/k": "v"}
    return pod


def test_a_policy_denies_with_its_message() -> None:
    reported = {"message": "a.dev/ keys are not yours"}
    cluster = a_guarded_cluster(a_policy(CHANGED, reported=reported))
    answer = cluster.post(PODS, with_key())
    assert answer.refusal == (422, "Invalid")
    assert answer.body["message"] == (
        "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'policy' with binding 'binding' "
        "denied request: a.dev/ keys are not yours"
    )
    assert cluster.get(f"{PODS}/p").code == 404
    assert cluster.post(PODS, a_pod()).code == 201


def test_a_policy_sees_what_changes_through_every_door() -> None:
    cluster = a_guarded_cluster(a_policy(CHANGED))
    cluster.pod(node="n")
    assert cluster.patch(f"{PODS}/p", KEYED).code == 422
    assert cluster.patch(f"{PODS}/p/status", KEYED).code == 422
    assert cluster.patch(f"{PODS}/p", {"metadata": {"annotations": {"b": "c"}}}).code == 200


def test_a_policy_leaves_some_users_alone() -> None:
    own = {"name": "others", "expression": "request.userInfo.username != 'scheduler'"}
    cluster = a_guarded_cluster(a_policy(CHANGED, matchConditions=[own]))
    cluster.user = AuthenticatedUser("scheduler", groups=("system:masters",))
    assert cluster.post(PODS, with_key()).code == 201
    cluster.user = AuthenticatedUser("tenant", groups=("system:masters",))
    assert cluster.post(PODS, with_key("q")).code == 422


def test_a_binding_may_only_warn() -> None:
    cluster = a_guarded_cluster(a_policy("false", reported={"message": "think twice"}), "Warn")
    answer = cluster.post(PODS, a_pod())
    assert (answer.code, answer.warnings) == (
        201,
        (
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'policy' with binding "
            "'binding': think twice\"",
        ),
    )


def test_a_policy_without_a_binding_decides_nothing() -> None:
    cluster = ASmallCluster()
    assert cluster.post(POLICIES, a_policy("false")).code == 201
    assert cluster.post(PODS, a_pod()).code == 201


def test_a_policy_concerns_what_its_rules_name() -> None:
    creating = rule("pods", operations=("CREATE",))
    cluster = a_guarded_cluster(a_policy("false", creating))
    assert cluster.post(NODES, {"metadata": {"name": "n"}}).code == 201
    assert cluster.post(PODS, a_pod()).code == 422


def test_a_bindings_namespaces_narrow_it() -> None:
    chosen = {"namespaceSelector": {"matchLabels": {"guarded": "yes"}}}
    cluster = a_guarded_cluster(a_policy("false"), matchResources=chosen)
    assert cluster.post(PODS, a_pod()).code == 201
    labels = {"metadata": {"labels": {"guarded": "yes"}}}
    cluster.patch("/api/v1/namespaces/default", labels)
    assert cluster.post(PODS, a_pod("q")).code == 422


def test_variables_and_messages_are_computed() -> None:
    policy = a_policy(
        "variables.count <= variables.most",
        variables=[
            {"name": "most", "expression": "1"},
            {"name": "count", "expression": "size(object.spec.containers) + variables.most"},
        ],
        reported={
            "messageExpression": "'too many: ' + string(variables.count)",
            "reason": "Forbidden",
        },
    )
    answer = a_guarded_cluster(policy).post(PODS, a_pod())
    assert answer.refusal == (403, "Forbidden")
    assert answer.body["message"].endswith("denied request: too many: 2")


@pytest.mark.parametrize(("policy", "code"), [("Fail", 422), ("Ignore", 201)])
def test_a_condition_without_a_value_fails_as_the_policy_says(policy: str, code: int) -> None:
    cluster = a_guarded_cluster(a_policy("object.spec.absent == 1", failurePolicy=policy))
    assert cluster.post(PODS, a_pod()).code == code


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (a_policy("object.("), "spec.validations[0].expression"),
        (a_policy("elsewhere == 1"), "spec.validations[0].expression"),
        (a_policy("true", paramKind={"kind": "ConfigMap"}), "spec.paramKind.apiVersion"),
        ({"metadata": {"name": "p"}, "spec": {}}, "spec.validations"),
    ],
)
def test_a_policy_that_cannot_be_evaluated_is_refused(policy: Json, field: str) -> None:
    answer = ASmallCluster().post(POLICIES, policy)
    assert answer.refusal == (422, "Invalid")
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}
