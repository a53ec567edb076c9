"""The fence that the API server keeps: a grant is written under the present term, or not at all.

The holder of the Lease looks at the time that is left to it and then writes. A process that is
stopped between the two, or a network that holds the request back, lets a former leader write after
the next one has read all pods, and give cards that the next one has given already. Leases alone do
not prevent that; what is written to has to compare (a fencing token, as in Chubby's sequencers).
Here the token is `leaseTransitions`, which grows with each new holder: every grant carries it as
`tessera.dev/term`, and a ValidatingAdmissionPolicy, whose parameter is the Lease, refuses another.

A grant without a term, as other versions of Tessera may write, is let pass. So is every grant while
there is no Lease: a policy that denies then would hold up all pods of the cluster.

Terms are compared in the policy's condition, and what fulfils it is denied: the API server converts
the object once for all conditions, and once more for each of the validation, its message and its
audit annotations, which a grant of the present term never comes to.
"""

from __future__ import annotations

from typing import Any, Final

from tessera_schema.annotation_keys import SCHEDULER, TERM_KEY
from tessera_schema.grants import GRANT_KEY

POLICY: Final = "tessera-terms"
"""Its name, and its binding's."""

Json = dict[str, Any]

_NOTES: Final = "object.metadata.annotations"
_OLD: Final = "oldObject.metadata.annotations"
_WRITTEN: Final = (
    f'has({_NOTES}) && "{GRANT_KEY}" in {_NOTES} && "{TERM_KEY}" in {_NOTES}'
    f' && (oldObject == null || !has({_OLD}) || !("{GRANT_KEY}" in {_OLD})'
    f' || {_OLD}["{GRANT_KEY}"] != {_NOTES}["{GRANT_KEY}"])'
)
_OVER: Final = (
    f"!has(params.spec.leaseTransitions)"
    f' || {_NOTES}["{TERM_KEY}"] != string(params.spec.leaseTransitions)'
)


def fencing_policy(namespace: str) -> dict[str, Json]:
    """The policy and its binding for a Lease in this namespace, by the paths to make them at."""
    version = "admissionregistration.k8s.io/v1"
    api = {"apiVersion": version, "metadata": {"name": POLICY}}
    rules = [_rule("CREATE", "pods/binding", "bindings"), _rule("UPDATE", "pods")]
    spec = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{
            "name": "a-grant-of-another-term-is-written", "expression": f"{_WRITTEN} && ({_OVER})",
        }],
        "validations": [{
            "expression": "false",
            "message": "this grant was written under a term of the scheduler's Lease that is over: "
            "another replica may have given the same cards meanwhile",
            "reason": "Forbidden",
        }],
    }  # fmt: skip
    lease = {"name": SCHEDULER, "namespace": namespace, "parameterNotFoundAction": "Allow"}
    bound = {"policyName": POLICY, "paramRef": lease, "validationActions": ["Deny"]}
    return {
        f"/apis/{version}/validatingadmissionpolicies": {
            "kind": "ValidatingAdmissionPolicy", **api, "spec": spec,
        },
        f"/apis/{version}/validatingadmissionpolicybindings": {
            "kind": "ValidatingAdmissionPolicyBinding", **api, "spec": bound,
        },
    }  # fmt: skip


def _rule(operation: str, *resources: str) -> Json:
    return {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation],
        "resources": list(resources),
    }  # fmt: skip
