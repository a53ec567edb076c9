"""Which cluster, as which user and in which namespace: the same as kubectl."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tessera_cli.api_objects import open_cluster
from tessera_cli.errors import CommandError
from tessera_cli.kubeconfig import ClusterTarget, add_arguments, target
from tessera_runtime.kube.api import Verb
from tests.cli.conftest import Tessera
from tests.contract.embedded import embedded_control_plane

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Missing(CommandError):
    """What a command of these tests raises."""


def chosen(*arguments: str, environ: Mapping[str, str] = {}) -> ClusterTarget:
    parser = argparse.ArgumentParser()
    add_arguments(parser, environ)
    return target(parser.parse_args(arguments))


def config(
    file: Path, server: str = "", ca: Path | str = "", token: str = "", **contexts: str
) -> Path:
    """A kubeconfig; context -> namespace, the first one is current."""
    body = {
        "apiVersion": "v1", "kind": "Config", "current-context": next(iter(contexts), ""),
        "clusters": [{"name": "c", "cluster": {
            "server": server or "https://127.0.0.1:1", "certificate-authority": str(ca),
        }}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            for name, namespace in contexts.items()
        ],
    }  # fmt: skip
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(body))
    return file


def test_the_file_that_is_named_goes_before_the_variable_and_the_one_at_home(
    tmp_path: Path,
) -> None:
    home = {"HOME": str(tmp_path)}
    assert chosen(environ=home).kubeconfig == ""
    file = config(tmp_path / ".kube" / "config", main="")
    assert chosen(environ=home).kubeconfig == str(file)
    named = {**home, "KUBECONFIG": "/a:/b"}
    assert chosen(environ=named).kubeconfig == "/a:/b"
    assert chosen("--kubeconfig", "/c", environ=named).kubeconfig == "/c"


def test_a_pod_has_its_own_account() -> None:
    reported = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    found = chosen(environ=reported)
    assert (found.kubeconfig, found.host, found.port) == ("", "10.0.0.1", 6443)


async def test_the_namespace_is_the_contexts(tmp_path: Path) -> None:
    async with embedded_control_plane(tmp_path / "server") as server:
        first = config(
            tmp_path / "1", server.url, server.ca_path, server.token, main="team-a", bare=""
        )
        other = config(tmp_path / "2", server.url, server.ca_path, server.token, second="team-b")
        listed = f"{first}:{tmp_path / 'none'}:{other}"

        async def namespace(*arguments: str) -> str:
            wanted = chosen(*arguments, environ={"KUBECONFIG": listed})
            async with open_cluster(wanted, name="t", error=Missing) as cluster:
                await cluster.kube.call(Verb.GET, "/api")
                return cluster.namespace

        assert await namespace("--context", "main") == "team-a"
        assert await namespace("--context", "bare") == "default"
        assert await namespace("--context", "second") == "team-b"
        assert await namespace("--context", "main", "-n", "team-c") == "team-c"


async def test_another_user_is_requested_for_by_the_header(tmp_path: Path) -> None:
    seen: list[str] = []
    async with embedded_control_plane(tmp_path / "server") as server:
        file = config(tmp_path / "1", server.url, server.ca_path, server.token, main="")
        wanted = chosen("--kubeconfig", str(file), "--as", "jane")
        async with open_cluster(wanted, name="t", error=Missing) as cluster:
            seen.append((await cluster.who.headers())["Impersonate-User"])
    assert seen == ["jane"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--context", "nosuch"), "context 'nosuch': there is no such context: name one of main"),
        (("--kubeconfig", "/nowhere"), "'/nowhere': there is no such file"),
    ],
)
async def test_what_is_missing_is_named(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    file = config(tmp_path / "1", main="")
    with pytest.raises(Missing, match=says):
        async with open_cluster(
            chosen(*arguments, environ={"KUBECONFIG": str(file)}), name="t", error=Missing
        ):
            pass


async def test_a_file_without_a_current_context_says_which_there_are(tmp_path: Path) -> None:
    file = config(tmp_path / "1", main="")
    file.write_text(file.read_text().replace('"current-context":"main"', '"current-context":""'))
    with pytest.raises(Missing, match="no context is current: name one of main"):
        async with open_cluster(
            chosen("--kubeconfig", str(file)), name="t", error=Missing
        ):  # fmt: skip
            pass


@pytest.mark.parametrize("command", [("quota",), ("explain", "p"), ("plan", "list")])
def test_without_any_file_every_command_says_what_to_do(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = tessera(*command)
    assert ran.status == 1
    assert "there is no ~/.kube/config: write one, or name a kubeconfig by" in ran.err
