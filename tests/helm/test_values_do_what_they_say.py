"""What each value changes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tessera_runtime.settings import load
from tessera_scheduler.settings import SchedulerSettings
from tests.helm.chart import HOOKS, NAMESPACE, container_of, installed, pod_of, refused, rendered

DEPLOYMENTS = ("tessera-scheduler", "tessera-quota", "tessera-rebalancer")
AGENTS = ("tessera-agent-iluvatar", "tessera-agent-mthreads", "tessera-agent-nvidia")
SETS = ("tessera-nats", "tessera-nats-cluster")
PODS = (
    *(("Deployment", name) for name in DEPLOYMENTS), *(("DaemonSet", name) for name in AGENTS),
    *(("StatefulSet", name) for name in SETS),
)  # fmt: skip


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {e["name"]: e.get("value") for e in container["env"]}


def test_images_come_from_ones_own_registry() -> None:
    found = rendered({
        "images": {"registry": "example.org/t", "tag": "9", "pullPolicy": "Always",
                   "pullSecrets": [{"name": "mine"}]},
        "quota": {"image": {"tag": "8", "pullPolicy": "Never"},
                  "imagePullSecrets": [{"name": "q"}]},
        "agents": {"image": {"digest": "sha256:12"}},
        "kubeScheduler": {"image": {"registry": "example.org/k", "tag": "v1.33.5"}},
        "nats": {"image": {"registry": "example.org/n"}},
    })  # fmt: skip
    images = {
        c["image"]
        for kind, name in PODS
        for c in (*pod_of(found, kind, name).get("initContainers", ()),
                  *pod_of(found, kind, name)["containers"])
    }  # fmt: skip
    assert images == {
        "example.org/t/scheduler:9", "example.org/t/quota:8", "example.org/t/rebalancer:9",
        "example.org/t/agent@sha256:12", "example.org/k/kube-scheduler:v1.33.5",
        "example.org/n/nats:2.15.1",
    }  # fmt: skip
    for kind, name in PODS:
        wanted = "q" if name == "tessera-quota" else "mine"
        assert pod_of(found, kind, name)["imagePullSecrets"] == [{"name": wanted}], name
    assert container_of(found, "Deployment", "tessera-quota", "quota")["imagePullPolicy"] == "Never"
    assert (
        found["Job", NAMESPACE, "tessera-uninstall"]["spec"]["template"]["spec"]["containers"][0][
            "image"
        ]
        == "example.org/t/scheduler:9"
    )


def test_kube_scheduler_may_have_the_clusters_version() -> None:
    found = rendered(
        {"kubeScheduler": {"image": {"tag": "cluster"}}}, "--kube-version=v1.31.7+k3s1"
    )
    pod = pod_of(found, "Deployment", "tessera-scheduler")
    images = {c["image"] for c in (*pod["initContainers"], *pod["containers"])}
    assert "registry.k8s.io/kube-scheduler:v1.31.7" in images
    assert len(images) == 2


def test_pods_are_put_where_they_are_wanted() -> None:
    own = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "mine", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "system-cluster-critical",
        "annotations": {"a": "1"}, "labels": {"b": "2"},
    }  # fmt: skip
    names = ("scheduler", "quota", "rebalancer", "agents", "nats")
    found = rendered(dict.fromkeys(names, own))
    for kind, name in PODS:
        pod = pod_of(found, kind, name)
        assert pod["nodeSelector"] == own["nodeSelector"], name
        assert pod["tolerations"] == own["tolerations"], name
        assert "podAntiAffinity" in pod["affinity"], name
        assert ("nodeAffinity" in pod["affinity"]) is (kind == "DaemonSet"), name
        assert pod["priorityClassName"] == "system-cluster-critical", name
        about = found[kind, NAMESPACE, name]["spec"]["template"]["metadata"]
        assert about["annotations"]["a"] == "1", name
        assert about["labels"]["b"] == "2", name
        assert about["labels"]["app.kubernetes.io/name"] in name, name


def test_containers_get_variables_and_resources() -> None:
    own = {
        "env": [{"name": "X", "value": "1"}, {"name": "TESSERA_BUS_URL", "value": "nats://other"}],
        "resources": {"limits": {"memory": "3Gi"}},
    }
    found = rendered({"all": {"logLevel": "debug"}, "scheduler": own, "agents": own,
                      "vendors": {"nvidia": {"env": [{"name": "X", "value": "2"}]}}})  # fmt: skip
    scheduler = container_of(found, "Deployment", "tessera-scheduler", "scheduler")
    assert env_of(scheduler).items() >= {
        "X": "1", "TESSERA_BUS_URL": "nats://other", "TESSERA_PROCESS_LOG_LEVEL": "debug",
        "TESSERA_BUS_USER": "scheduler",
    }.items()  # fmt: skip
    assert len(env_of(scheduler)) == len(scheduler["env"])
    assert scheduler["resources"] == {
        "requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "3Gi"},
    }  # fmt: skip
    for name in AGENTS:
        agent = container_of(found, "DaemonSet", name, "agent")
        assert env_of(agent)["X"] == ("2" if name.endswith("nvidia") else "1")
        assert env_of(agent)["TESSERA_PROCESS_LOG_LEVEL"] == "debug"
    quota = container_of(found, "Deployment", "tessera-quota", "quota")
    assert env_of(quota)["TESSERA_PROCESS_LOG_LEVEL"] == "debug"


def test_a_variable_is_the_same_object_of_no_other_agent() -> None:
    """What all agents have is not changed by what one vendor has."""
    shared = [{"name": "X", "value": "1"}]
    vendors = {n: {"env": [{"name": "X", "value": n}]} for n in ("iluvatar", "nvidia")}
    found = rendered({"agents": {"env": shared}, "vendors": vendors})
    values = {n: env_of(container_of(found, "DaemonSet", n, "agent"))["X"] for n in AGENTS}
    assert values == dict(zip(AGENTS, ("iluvatar", "1", "nvidia"), strict=True))


def test_update_strategies_are_replaced() -> None:
    found = rendered({
        "scheduler": {"updateStrategy": {"type": "Recreate"}},
        "agents": {"updateStrategy": {"type": "OnDelete"}},
        "nats": {"updateStrategy": {"type": "OnDelete"}},
    })  # fmt: skip
    scheduler = found["Deployment", NAMESPACE, "tessera-scheduler"]["spec"]
    assert scheduler["strategy"] == {"type": "Recreate"}
    for kind, names in (("DaemonSet", AGENTS), ("StatefulSet", SETS)):
        for name in names:
            assert found[kind, NAMESPACE, name]["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_a_vendor_that_is_off_has_no_agent() -> None:
    found = rendered({"vendors": {"iluvatar": {"enabled": False}, "mthreads": {"enabled": False}}})
    assert [n for kind, _, n in found if kind == "DaemonSet"] == ["tessera-agent-nvidia"]
    assert ("ServiceAccount", NAMESPACE, "tessera-agent") in found


def test_kube_schedulers_container_can_be_ones_own() -> None:
    mine = {"name": "my-kube-scheduler", "image": "example.org/kube-scheduler:1"}
    found = rendered(
        {"kubeScheduler": {"enabled": False}, "scheduler": {"extraContainers": [mine]}}
    )
    pod = pod_of(found, "Deployment", "tessera-scheduler")
    assert pod["containers"] == [mine]
    assert [c["name"] for c in pod["initContainers"]] == ["scheduler", "until-it-leads"]
    assert {"name": "kube-scheduler", "configMap": {"name": "tessera-kube-scheduler"}} in pod[
        "volumes"
    ]


def test_kube_scheduler_calls_as_often_as_it_may() -> None:
    found = rendered({"kubeScheduler": {
        "clientConnection": {"qps": 50, "burst": 100}, "extraArgs": ["--v=4"],
        "config": {"percentageOfNodesToScore": 50},
    }})  # fmt: skip
    data = found["ConfigMap", NAMESPACE, "tessera-kube-scheduler"]["data"]
    config = yaml.safe_load(data["kube-scheduler.yaml"])
    assert config["clientConnection"] == {"qps": 50, "burst": 100}
    assert config["percentageOfNodesToScore"] == 50
    assert len(config["extenders"][0]["managedResources"]) > 10
    command = container_of(found, "Deployment", "tessera-scheduler", "kube-scheduler")["command"]
    assert command[-1] == "--v=4"
    assert command[0] == "kube-scheduler"


def test_pods_follow_their_configuration() -> None:
    def sums(values: dict[str, Any]) -> dict[str, str]:
        found = rendered(values)
        return {
            name: found[kind, NAMESPACE, name]["spec"]["template"]["metadata"]["annotations"][
                "checksum/config"
            ]
            for kind, name in PODS
        }

    before, after = sums({}), sums({"kubeScheduler": {"clientConnection": {"qps": 1}}})
    assert {name for name in before if before[name] != after[name]} == {"tessera-scheduler"}


def test_the_webhook_leaves_pods_alone() -> None:
    team = {"matchLabels": {"team": "research"}}
    old = {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
    found = rendered({"webhook": {
        "takeDefault": False, "leftOutNamespaces": ["a", "b"], "namespaceSelector": team,
        "objectSelector": old,
    }})  # fmt: skip
    env = env_of(container_of(found, "Deployment", "tessera-scheduler", "scheduler"))
    plain = {name: value for name, value in env.items() if value and name != "TESSERA_INSTANCE"}
    webhook = load(SchedulerSettings, plain).webhook
    assert not webhook.take_default
    assert webhook.registration.left_out == ("a", "b")
    assert webhook.registration.selectors() == (team, old)


def test_components_have_values_of_their_own() -> None:
    names = ("cert-manager", "otel", "prometheus", "ha")
    found = rendered({
        "components": dict.fromkeys(names, True),
        "certificates": {"issuerRef": {"name": "mine", "kind": "ClusterIssuer"}},
        "otel": {"env": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:4318"}},
        "prometheus": {"dashboards": False, "labels": {"release": "r"}},
        "nats": {"storage": {"size": "9Gi", "className": "fast"}, "extraArgs": ["-D"]},
    })  # fmt: skip
    webhook = found["Certificate", NAMESPACE, "tessera-webhook"]["spec"]
    assert webhook["issuerRef"] == {"name": "mine", "kind": "ClusterIssuer"}
    assert found["ConfigMap", NAMESPACE, "tessera-otel"]["data"] == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:4318"
    }
    assert ("ConfigMap", NAMESPACE, "tessera-dashboards") not in found
    monitors = [i for (kind, _, _), i in found.items() if kind in ("PodMonitor", "PrometheusRule")]
    assert len(monitors) == 5
    assert all(i["metadata"]["labels"]["release"] == "r" for i in monitors)
    (claim,) = found["StatefulSet", NAMESPACE, "tessera-nats-cluster"]["spec"][
        "volumeClaimTemplates"
    ]
    assert claim["spec"]["resources"]["requests"]["storage"] == "9Gi"
    assert claim["spec"]["storageClassName"] == "fast"
    nats = container_of(found, "StatefulSet", "tessera-nats", "nats")
    assert nats["args"] == ["--config", "/etc/nats/nats.conf", "-D"]


def test_the_console_is_there_when_it_is_on() -> None:
    own = {"images": {"registry": "example.org/t", "tag": "9"}, "all": {"logLevel": "debug"},
           "console": {"env": [{"name": "TESSERA_ACTS", "value": "true"}],
                       "nodeSelector": {"zone": "a"}}}  # fmt: skip
    on = rendered({**own, "components": {"console": True}})
    found = container_of(on, "Deployment", "tessera-console", "console")
    assert found["image"] == "example.org/t/console:9"
    assert env_of(found).items() >= {
        "TESSERA_ACTS": "true", "TESSERA_PROCESS_LOG_LEVEL": "debug", "TESSERA_BUS_USER": "viewer",
    }.items()  # fmt: skip
    assert pod_of(on, "Deployment", "tessera-console")["nodeSelector"] == {"zone": "a"}
    assert not [name for name in rendered(own) if "tessera-console" in name]


def test_passwords_may_be_in_a_secret_of_ones_own() -> None:
    found = rendered({"passwords": {"create": False, "secret": "mine"}})
    assert not [name for name in found if name[0] == "Secret"]
    texts = yaml.safe_dump(list(installed(found).values()))
    assert "tessera-bus" not in texts
    assert "mine" in texts


def test_anything_can_be_patched_added_and_taken_away() -> None:
    claims = {
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "tessera-nats-cluster", "namespace": NAMESPACE},
        "spec": {
            "volumeClaimTemplates": None,
            "template": {"spec": {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}]}},
        },
    }  # fmt: skip
    gone = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "tessera-quota-viewer"}, "$patch": "delete",
    }  # fmt: skip
    more = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "more", "namespace": "other"},
    }
    found = rendered({"patches": [claims, gone], "extraObjects": [more]})
    servers = found["StatefulSet", NAMESPACE, "tessera-nats-cluster"]["spec"]
    assert "volumeClaimTemplates" not in servers
    assert {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}} in servers["template"]["spec"][
        "volumes"
    ]
    assert ("ClusterRole", "", "tessera-quota-viewer") not in found
    assert found["ConfigMap", "other", "more"] == more


def test_uninstalling_can_be_left_to_somebody_else() -> None:
    names = {name for name in rendered({"uninstall": {"enabled": False}}) if name in HOOKS}
    assert names == {("Secret", NAMESPACE, "tessera-bus")}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"components": {"hi": True}}, "hi"),
        ({"replicas": 2}, "replicas"),
        ({"scheduler": {"image": {"pullPolicy": "Sometimes"}}}, "pullPolicy"),
        ({"scheduler": {"replicas": 2}}, "components.ha=true"),
        ({"components": {"nats-tls": True}}, "components.cert-manager=true"),
        ({"kubeScheduler": {"enabled": False}}, "scheduler.extraContainers"),
        ({"patches": [{"kind": "Pod", "metadata": {"name": "no"}}]}, "there is no Pod"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(values: dict[str, Any], said: str) -> None:
    assert said in refused(values)


def test_another_namespace_is_refused() -> None:
    assert "--namespace tessera-system" in refused({}, "--namespace", "other")


def test_containerds_drop_in_has_the_agents_image_and_its_own_way() -> None:
    found = rendered({
        "components": {"containerd": True}, "images": {"registry": "example.org/t", "tag": "9"},
        "agents": {"image": {"digest": "sha256:12"}, "imagePullSecrets": [{"name": "mine"}]},
        "containerd": {"mode": "remove", "env": [{"name": "TESSERA_ANSWER_S", "value": "30"}],
                       "nodeSelector": {"pool": "a"}},
    })  # fmt: skip
    pod = pod_of(found, "DaemonSet", "tessera-containerd")
    (container,) = pod["containers"]
    assert container["image"] == "example.org/t/agent@sha256:12"
    assert env_of(container).items() >= {"TESSERA_MODE": "remove", "TESSERA_ANSWER_S": "30"}.items()
    assert pod["imagePullSecrets"] == [{"name": "mine"}]
    assert pod["nodeSelector"] == {"pool": "a"}
