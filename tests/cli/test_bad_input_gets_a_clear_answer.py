"""Everything that makes no sense is answered with place, field, value and remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cluster import REGISTER, bound, card, node, pod, text
from tests.cli.conftest import Tessera, Write

GPU, MEMORY = "nvidia.com/gpu", "nvidia.com/gpumem"


@pytest.mark.parametrize(
    ("manifest", "reported"),
    [
        pytest.param("[1, 2, 3]", "document 1, items[0]: 1, not an object", id="numbers"),
        pytest.param("5", "document 1: 5, not an object", id="a-number"),
        pytest.param("just words", '"just words", not an object', id="words"),
        pytest.param("a: 1\nb: 2", "no apiVersion and kind, only a, b", id="another-yaml"),
        pytest.param("kind: Pod", "no apiVersion, only kind", id="no-version"),
        pytest.param('{"apiVersion": "v1"}', "no kind, only apiVersion", id="no-kind-in-json"),
        pytest.param("{}", "no apiVersion and kind, only no keys at all", id="empty-mapping"),
        pytest.param("kind: 5\napiVersion: v1", "kind: 5, not text", id="a-number-as-kind"),
        pytest.param("apiVersion: v1\nkind: PodList\nitems: 5", "items: 5: write", id="items"),
        pytest.param("a: b: c", "line 1: mapping values are not allowed", id="no-yaml"),
        pytest.param('{"a": 1', "truncated", id="half-a-json"),
        pytest.param('{"a": 1} trailing', "trailing characters", id="json-and-more"),
        pytest.param('{"a": "\\x"}', "invalid escape", id="bad-json"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "byte 0 is 0x89", id="a-picture"),
        pytest.param(b"a\0b", "byte 1 is 0: not text", id="zero-bytes"),
        pytest.param(b'{"kind": "Pod\xff"}', "byte 0xff", id="json-that-is-no-utf-8"),
        pytest.param(b"\x1f\x8b\x08\0", "not text", id="compressed"),
        pytest.param("[" * 100_000, "nested too deep", id="brackets"),
        pytest.param("x: &x [y, y]\nz: [" + "*x, " * 60_000 + "]", "aliases stand for", id="bomb"),
        pytest.param("", "standard input: empty: give manifests", id="nothing"),
        pytest.param("---\n# nothing\n", "standard input: empty", id="only-comments"),
    ],
)
def test_what_is_not_kubernetes_is_refused(
    tessera: Tessera, manifest: str | bytes, reported: str
) -> None:
    ran = tessera("place", "-f", "-", stdin=manifest)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("tessera: error: standard input")
    assert reported in ran.err


def broken(**changes: Any) -> dict[str, Any]:
    manifest = pod()
    for path, value in changes.items():
        *steps, last = path.split("__")
        inner: Any = manifest
        for step in steps:
            inner = inner[int(step) if step.isdigit() else step]
        inner[int(last) if last.isdigit() else last] = value
    return manifest


@pytest.mark.parametrize(
    ("manifest", "reported"),
    [
        pytest.param(broken(spec=[]), "Pod p: spec: a list of 0: write a mapping", id="spec"),
        pytest.param(
            broken(spec__containers={"a": 1}),
            "Pod p: spec.containers: a mapping: write a list",
            id="containers",
        ),
        pytest.param(
            broken(spec__containers=[]), "spec.containers: none: write at least one", id="none"
        ),
        pytest.param(
            broken(spec__containers__0__name=""),
            "spec.containers[0].name: missing",
            id="a-container-without-a-name",
        ),
        pytest.param(
            broken(spec__initContainers=[{"name": "main"}]),
            "spec.containers[0].name: main comes twice",
            id="a-name-twice",
        ),
        pytest.param(
            broken(spec__containers__0__resources__limits={GPU: [1]}),
            f"spec.containers[0].resources.limits[{GPU}]: a list of 1: write a whole number",
            id="a-list-as-amount",
        ),
        pytest.param(
            broken(spec__containers__0__resources__limits={GPU: 1, MEMORY: True}),
            f"spec.containers[0].resources.limits[{MEMORY}]: true: write",
            id="a-boolean-as-amount",
        ),
        pytest.param(
            broken(metadata__annotations={"ok": "yes", "a": {"b": "c"}}),
            "metadata.annotations[a]: a mapping: write text",
            id="a-mapping-as-annotation",
        ),
        pytest.param(
            broken(spec__containers__0__env=[{"value": "x"}]),
            "spec.containers[0].env[0]: Object missing required field `name`",
            id="a-variable-without-a-name",
        ),
        pytest.param(broken(metadata={}), "metadata.name: missing: name the object", id="nameless"),
        pytest.param(broken(metadata__name="a b"), 'metadata.name: "a b": write', id="a-space"),
        pytest.param(
            broken(metadata__name="\x1b[31mred"), "write small letters", id="an-escape-sequence"
        ),
        pytest.param(broken(metadata__name=5), "metadata.name: 5: write text", id="a-number"),
        pytest.param(
            broken(spec__containers__0__resources__limits={"cpu": "lots"}),
            "container main: resources[cpu]: 'lots' is not a quantity",
            id="no-quantity-of-cpu",
        ),
        pytest.param(
            broken(spec__containers__0__resources__limits={"memory": "-1Gi"}),
            "container main: resources[memory]: -1Gi is negative",
            id="negative-memory",
        ),
    ],
)
def test_a_field_that_makes_no_sense_is_named(
    tessera: Tessera, manifest: dict[str, Any], reported: str
) -> None:
    for spelling in (text(node(), manifest), f"{json.dumps(node())}\n---\n{json.dumps(manifest)}"):
        ran = tessera("place", "-f", "-", stdin=spelling)
        assert (ran.status, ran.out) == (1, "")
        assert reported in ran.err
        assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        pytest.param({"inspur.com/vcuda-core": "150"}, "inspur.com/vcuda-core", id="150"),
        pytest.param({"tencent.com/vcuda-core": "250"}, "tencent.com/vcuda-core", id="250"),
        pytest.param({GPU: "-1"}, GPU, id="negative"),
        pytest.param({GPU: "1.5"}, GPU, id="fractional"),
        pytest.param({GPU: "500m"}, GPU, id="thousandths"),
        pytest.param({GPU: 1, MEMORY: "99999999999999999999"}, MEMORY, id="overflowing"),
        pytest.param({GPU: 1, MEMORY: 10**30}, MEMORY, id="overflowing-number"),
        pytest.param({GPU: 1, MEMORY: "9223372036854775807"}, MEMORY, id="the-largest-number"),
        pytest.param({GPU: 1, MEMORY: "1e18"}, MEMORY, id="exponent"),
        pytest.param({GPU: "one"}, GPU, id="a-word"),
        pytest.param({GPU: ""}, GPU, id="empty"),
        pytest.param({"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": "-2"},
                     "mthreads.com/sgpu-memory", id="negative-mthreads"),
        pytest.param({"iluvatar.ai/vgpu": 1, "iluvatar.ai/vcuda-memory": "0.5"},
                     "iluvatar.ai/vcuda-memory", id="fractional-iluvatar"),
        pytest.param({"volcano.sh/gpu-memory": "-1024"}, "volcano.sh/gpu-memory", id="volcano"),
        pytest.param({"koordinator.sh/gpu-core": "50"}, "koordinator.sh/gpu-core", id="koord"),
        pytest.param({GPU: 1, "volcano.sh/vgpu-number": 1}, "volcano.sh/vgpu-number",
                     id="two-dialects-for-one-vendor"),
    ],
)  # fmt: skip
def test_an_amount_that_makes_no_sense_rejects_its_pod_only(
    tessera: Tessera, limits: dict[str, Any], field: str
) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), pod("bad", limits), pod()))
    assert (ran.status, ran.verdicts) == (2, {"bad": "rejected", "p": "placed"})
    assert field in ran.pods[0]["message"]


def test_unknown_cards_are_reported(tessera: Tessera) -> None:
    asked = pod(annotations={"nvidia.com/use-gpuuuid": "GPU-of-another-world"})
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), asked))
    assert (ran.status, ran.verdicts) == (2, {"p": "waiting"})
    assert [r["code"] for r in ran.pods[0]["reasons"]] == ["CardUuidMismatch"]
    assert "GPU-of-another-world is on no node" in ran.pods[0]["warnings"][0]


@pytest.mark.parametrize(
    "register",
    [
        pytest.param("[{]", id="no-json"),
        pytest.param("5", id="a-number"),
        pytest.param('[{"id": 5}]', id="wrong-types"),
        pytest.param("GPU-1,10", id="half-a-line"),
        pytest.param("GPU-1,ten,16384,100,A100,0,true:", id="words-for-numbers"),
        pytest.param(json.dumps([card(0, mib=-1)]), id="negative-memory"),
        pytest.param(json.dumps([card(0, mib=10**30)]), id="memory-beyond-belief"),
        pytest.param(50, id="unquoted"),
    ],
)
def test_a_node_whose_annotation_cannot_be_read_is_reported(
    tessera: Tessera, register: Any
) -> None:
    unhealthy = node("sick", cards=0, annotations={REGISTER: register})
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(unhealthy, node(), pod()))
    assert (ran.status, ran.pods[0]["node"]) == (0, "n1")
    assert "sick" in ran.err
    assert REGISTER in ran.err


@pytest.mark.parametrize(
    "annotation", ["", "rubbish", "GPU-n1-0,NVIDIA,many,0:;", "GPU-elsewhere,NVIDIA,3000,0:;", ";;"]
)
def test_a_bound_pod_whose_annotation_cannot_be_read_is_counted(
    tessera: Tessera, annotation: str
) -> None:
    holds = bound("b", annotation)
    limits = {GPU: 2, MEMORY: 16000}
    holds["spec"]["containers"][0]["resources"]["limits"] = limits
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), holds, pod()))
    assert (ran.status, ran.verdicts) == (2, {"p": "waiting"})
    assert "pod default/b: " in ran.err


def test_a_node_that_lies_is_reported_and_takes_no_more(tessera: Tessera) -> None:
    annotation = "GPU-n1-0,NVIDIA,12000,60:;"
    ran = tessera(
        "place", "-f", "-", "-o", "json",
        stdin=text(node(cards=1), bound("b1", annotation), bound("b2", annotation), pod()),
    )  # fmt: skip
    assert (ran.status, ran.verdicts) == (2, {"p": "waiting"})
    assert "node n1: card GPU-n1-0 is granted beyond what it has: 24000 of 16384 MiB" in ran.err


def test_the_same_object_twice_is_refused_with_both_places(tessera: Tessera, write: Write) -> None:
    ran = tessera("place", "-f", "-", stdin=text(node(), node()))
    assert ran.status == 1
    assert "Node n1 is also in standard input, document 1, items[0]" in ran.err


def test_a_pod_that_runs_is_not_planned_under_its_own_name(tessera: Tessera) -> None:
    running = bound("p", "GPU-n1-0,NVIDIA,1,1:;")
    ran = tessera("place", "-f", "-", stdin=text(node(), running, pod()))
    assert ran.status == 1
    assert "Pod default/p is also in standard input, document 1, items[1]" in ran.err


def test_pods_of_one_name_are_planned_apart_with_a_warning(tessera: Tessera, write: Write) -> None:
    first, second = write(text(node(), pod()), "a.json"), write(text(pod()), "b.json")
    ran = tessera("place", "-f", first, "-f", second, "-o", "json")
    assert ran.status == 0
    one, other = ran.pods
    assert (one["verdict"], other["verdict"]) == ("placed", "placed")
    assert one["warnings"] == []
    assert (
        f"{first}, document 1, items[1], Pod p has a pod of this name too" in other["warnings"][0]
    )


def test_the_same_file_twice_is_refused(tessera: Tessera, write: Write) -> None:
    path = write(text(node(), pod()))
    folder = str(Path(path).parent)
    for other in (path, folder, f"{folder}/../{Path(folder).name}/manifest.yaml"):
        ran = tessera("place", "-f", path, "-f", other)
        assert ran.status == 1
        assert "read twice" in ran.err
    assert "standard input: read twice" in tessera("place", "-f", "-", "-f", "-").err


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("nowhere.yaml", "no such file or folder"),
        ("nowhere/at/all", "no such file or folder"),
        ("empty", "no .yaml, .yml, .json files in this folder"),
        ("x" * 5000, "File name too long"),
        ("a\0b", "no such file"),
    ],
)
def test_what_cannot_be_read_is_named(
    tessera: Tessera, tmp_path: Path, name: str, reported: str
) -> None:
    (tmp_path / "empty").mkdir()
    ran = tessera("place", "-f", f"{tmp_path}/{name}")
    assert (ran.status, ran.out) == (1, "")
    assert reported in ran.err


def test_yaml_beyond_64_mib_is_refused_with_the_way_out(tessera: Tessera, write: Write) -> None:
    path = write(b"# large\n" + b"- a: bcdefghijklmnop\n" * 5_000_000, "large.yaml")
    ran = tessera("place", "-f", path)
    assert ran.status == 1
    assert "large.yaml: 100 MiB of YAML, at most 64 MiB are read: get it with -o json" in ran.err


def test_json_of_100_mib_is_read(tessera: Tessera, write: Write) -> None:
    padding = "x" * (100 << 10)
    others = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{i}"},
         "data": {"padding": padding}}
        for i in range(1024)
    ]  # fmt: skip
    path = write(text(node(), *others, pod()), "large.json")
    ran = tessera("place", "-f", path, "-o", "json")
    assert (ran.status, ran.verdicts) == (0, {"p": "placed"})
    assert "1024 ConfigMap" in ran.err


SECRETS = "root:$6$saltsalt$hash:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n"


@pytest.mark.parametrize(
    "content", [SECRETS, "hunter2", "31337", "- hunter2", '["hunter2"]', "$6$hash: hunter2\n"]
)
def test_a_file_that_is_no_manifest_is_not_displayed(
    tessera: Tessera, write: Write, content: str
) -> None:
    for arguments in (
        ("-f", write(content)),
        ("-f", write(text(node()), "n.yaml"), "--config", write(content, "c")),
    ):
        ran = tessera("place", *arguments)
        assert ran.status == 1
        for secret in ("hunter2", "hash", "31337", "salt", "daemon"):
            assert secret not in ran.err


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_alone_is_named(tessera: Tessera, mark: bytes) -> None:
    ran = tessera("place", "-f", "-", stdin=mark)
    assert ran.status == 1
    assert "standard input: nothing but a byte order mark" in ran.err
