"""What the console's own account may do: read what is shown, and ask about callers."""

from __future__ import annotations

from pathlib import Path

from tests.deploy.manifests import combined, containers, environment, named

READS = {"pods", "nodes", "acceleratorquotas", "rebalanceplans"}
ASKS = {"tokenreviews", "subjectaccessreviews"}


def test_its_role_writes_nothing(tmp_path: Path) -> None:
    (role,) = named(combined(tmp_path, ("console",)), "ClusterRole", "tessera-console")
    allowed = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    reads = {(resource, verb) for resource in READS for verb in ("list", "watch")}
    assert allowed == reads | {(resource, "create") for resource in ASKS}


def test_it_is_off_and_wants_tokens_unless_somebody_says_so(tmp_path: Path) -> None:
    assert not named(combined(tmp_path, ()), "Deployment", "tessera-console")
    objects = combined(tmp_path, ("console",))
    (container,) = [c for c in containers(objects) if c.spec["name"] == "console"]
    env = environment(container, objects)
    assert env["TESSERA_BUS_USER"] == "viewer"
    assert not {"TESSERA_ACTS", "TESSERA_ACCESS"} & env.keys()


def test_its_bus_is_reached_by_tls_where_others_reach_it_so(tmp_path: Path) -> None:
    objects = combined(tmp_path, ("console", "cert-manager", "nats-tls"))
    (container,) = [c for c in containers(objects) if c.spec["name"] == "console"]
    assert environment(container, objects)["TESSERA_BUS_URL"].startswith("tls://")
