"""YAML and JSON, many documents, lists of any kind, folders, standard input."""

from __future__ import annotations

import json

import pytest

from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera, Write

NODE, POD = json.dumps(node()), json.dumps(pod())
YAML_POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: main
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}
"""


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(text(node(), pod()), id="a-list"),
        pytest.param(f"{NODE}\n{POD}\n", id="json-in-a-row"),
        pytest.param(f"[{NODE}, {POD}]", id="a-json-array"),
        pytest.param(f"{NODE}\n---{YAML_POD}---\n# nothing\n---\n", id="yaml-documents"),
        pytest.param(f"\n\n{NODE}\n---\n{POD}", id="flow-yaml-documents"),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": [node()]})
            + json.dumps(
                {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [
                    {k: v for k, v in pod().items() if k not in ("kind", "apiVersion")}
                ]}
            ),
            id="typed-lists-whose-items-say-no-kind",
        ),
        pytest.param(text(json.loads(text(node())), pod()), id="a-list-in-a-list"),
        pytest.param("\ufeff" + text(node(), pod()), id="byte-order-mark"),
    ],
)  # fmt: skip
def test_every_spelling_gives_the_same_plan(tessera: Tessera, manifest: str) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=manifest)
    assert (ran.status, ran.verdicts, ran.err) == (0, {"p": "placed"}, "")


def test_utf_16_from_a_windows_shell_is_read(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), pod()).encode("utf-16"))
    assert ran.verdicts == {"p": "placed"}


def test_a_cluster_on_standard_input_and_a_file_are_read_together(
    tessera: Tessera, write: Write
) -> None:
    ran = tessera("place", "-f", "-", "-f", write(YAML_POD), "-o", "json", stdin=text(node()))
    assert ran.verdicts == {"p": "placed"}


def test_a_folder_is_read_in_order_and_the_folders_in_it_only_when_requested(
    tessera: Tessera, write: Write
) -> None:
    write(json.dumps(pod("last")), "some/z.json")
    write(json.dumps(pod("first")), "some/a.yml")
    write(json.dumps(node()), "some/n.yaml")
    write("not a manifest", "some/notes.txt")
    write("", "some/empty.yaml")
    deep = write(json.dumps(pod("deep")), "some/in/it.yaml")
    folder = deep.removesuffix("/in/it.yaml")
    assert list(tessera("place", "-f", folder, "-o", "json").verdicts) == ["first", "last"]
    everything = tessera("place", "-R", "-f", folder, "-o", "json")
    assert list(everything.verdicts) == ["first", "deep", "last"]


def test_objects_of_other_kinds_are_counted_on_standard_error(tessera: Tessera) -> None:
    others = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n}, "data": {"a": "b"}}
        for n in ("a", "b")
    ]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n1"}}
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(*others, service, node(), pod()))
    assert ran.verdicts == {"p": "placed"}
    assert ran.err == "tessera: skipped, not needed for planning: 2 ConfigMap, 1 Service\n"


def test_a_cluster_in_which_no_pod_waits_is_no_error(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node()))
    assert (ran.status, ran.pods) == (0, [])
    assert ran.err == "tessera: no pod waits for a place: nothing to plan\n"


def test_only_pods_that_wait_for_a_place_are_planned(tessera: Tessera) -> None:
    done = {**pod("done"), "status": {"phase": "Succeeded"}}
    leaving = pod("leaving", deletionTimestamp="2024-05-20T10:02:05Z")
    running = pod("running")
    running["spec"]["nodeName"] = "n1"
    ended = {**pod("ended"), "status": {"phase": "Failed"}}
    ended["spec"] = {**ended["spec"], "nodeName": "gone"}
    again = pod("ended")
    ran = tessera(
        "place", "-f", "-", "-o", "json", stdin=text(node(), done, leaving, running, ended, again)
    )
    assert ran.verdicts == {"ended": "placed"}


def test_generated_names_are_made_up(tessera: Tessera) -> None:
    first, second = pod(generateName="job-"), pod(generateName="job-")
    del first["metadata"]["name"], second["metadata"]["name"]
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), first, second))
    assert list(ran.verdicts) == ["job-0", "job-1"]


def test_a_copied_uid_is_not_taken_for_the_same_pod(tessera: Tessera) -> None:
    pods = [pod(n, {"nvidia.com/gpu": 2}, uid="5b1ffb0a") for n in ("a", "b")]
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), *pods))
    assert ran.verdicts == {"a": "placed", "b": "waiting"}


@pytest.mark.parametrize("lacking", ["capacity", "allocatable"])
def test_a_node_may_say_only_what_it_has_or_only_what_it_gives(
    tessera: Tessera, lacking: str
) -> None:
    amounts = {"volcano.sh/gpu-number": "1", "volcano.sh/gpu-memory": "100"}
    half = node(cards=0, capacity=amounts)
    del half["status"][lacking]
    asks = pod(limits={"volcano.sh/gpu-memory": "100"})
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(half, asks))
    assert ran.verdicts == {"p": "placed"}
