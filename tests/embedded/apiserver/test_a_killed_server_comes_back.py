"""What was answered outlives the process; what was torn is cut off; what is damaged is reported."""

from __future__ import annotations

import resource
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tessera_embedded.apiserver import Store
from tessera_embedded.apiserver.objects.object_store import WINDOW
from tessera_embedded.apiserver.objects.write_ahead_log import Journal, JournalBroken
from tests.embedded.apiserver.setting import PODS, a_pod, events

START_S = 60
NAMESPACES = "/api/v1/namespaces"


def start(folder: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server as a process of its own, and wait for its word."""
    argv = [sys.executable, "-m", "tessera_embedded.apiserver", f"--folder={folder}", *more]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    word, url = process.stdout.readline().split()
    assert word == "ready"
    return process, url


def end(process: subprocess.Popen[str], how: signal.Signals) -> int:
    """End it, and return how it ended."""
    process.send_signal(how)
    assert process.stdout is not None
    process.stdout.close()
    return process.wait(START_S)


async def call(folder: Path, url: str, method: str, path: str, body: object = None) -> object:
    """Call it as the administrator."""
    tls = ssl.create_default_context(cafile=folder / "ca.crt")
    token = (folder / "tokens.json").read_text(encoding="utf-8").split('"')[3]
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, json=body, headers=headers, ssl=tls) as answer,
    ):
        assert answer.status in {200, 201}, await answer.text()
        return await answer.json()


async def test_a_killed_process_has_lost_nothing_that_it_answered(tmp_path: Path) -> None:
    process, url = start(tmp_path)
    made = await call(tmp_path, url, "POST", PODS, a_pod("kept"))
    assert end(process, signal.SIGKILL) == -signal.SIGKILL
    process, url = start(tmp_path)
    kept = await call(tmp_path, url, "GET", f"{PODS}/kept")
    code = end(process, signal.SIGTERM)
    assert (kept, code) == (made, 0)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_gets_a_signal_ends_well(tmp_path: Path, how: signal.Signals) -> None:
    process, _ = start(tmp_path)
    assert end(process, how) == 0


def test_a_process_is_given_its_accounts(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.json"
    rule = '{"verbs":["get"],"resources":["pods"]}'
    accounts.write_text(f'[{{"name":"agent","rules":[{rule}]}}]', encoding="utf-8")
    process, _ = start(tmp_path, f"--accounts={accounts}")
    end(process, signal.SIGTERM)
    tokens = msgspec.json.decode((tmp_path / "tokens.json").read_bytes())
    assert set(tokens) == {"kubernetes-admin", "agent"}


@pytest.mark.parametrize("content", ["", "[{}]", None])
def test_accounts_that_cannot_be_read_are_reported(tmp_path: Path, content: str | None) -> None:
    accounts = tmp_path / "accounts.json"
    if content is not None:
        accounts.write_text(content, encoding="utf-8")
    argv = [sys.executable, "-m", "tessera_embedded.apiserver", f"--folder={tmp_path}"]
    done = subprocess.run(
        [*argv, f"--accounts={accounts}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"--accounts {accounts}: " in done.stderr


def test_a_disk_that_is_full_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    store, journal = opened_at(path)
    whole, version = path.read_bytes(), store.objects.version
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
    try:
        with pytest.raises(OSError, match=r"journal took only|too large"):
            store.handle("POST", NAMESPACES, body=b'{"metadata":{"name":"lost"}}')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    journal.close()
    assert (path.read_bytes(), store.objects.version) == (whole, version)
    assert store.handle("GET", f"{NAMESPACES}/lost").code == 404


def opened_at(path: Path) -> tuple[Store, Journal]:
    """A store with a journal, as a server opens it."""
    store, journal = Store(), Journal(path)
    journal.read(store.objects)
    store.objects.on_change = journal.append
    store.open()
    return store, journal


def test_versions_and_watches_go_on_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    store, journal = opened_at(path)
    store.handle("POST", PODS, body=b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c",'
                 b'"image":"i"}]}}')  # fmt: skip
    seen = store.objects.version
    store.handle("DELETE", f"{PODS}/a")
    journal.close()
    again, journal = opened_at(path)
    watch = again.watch(PODS, {"resourceVersion": str(seen)})
    journal.close()
    assert again.objects.version == store.objects.version
    assert events(watch) == [("MODIFIED", "a"), ("DELETED", "a")]


def test_a_line_that_was_not_finished_was_never_answered(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    store, journal = opened_at(path)
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"v":99,"s":["","pods"],"o":{"meta')
    again, journal = opened_at(path)
    again.handle("POST", NAMESPACES, body=b'{"metadata":{"name":"after"}}')
    journal.close()
    third, journal = opened_at(path)
    journal.close()
    assert again.objects.version == third.objects.version == store.objects.version + 1
    assert third.handle("GET", f"{NAMESPACES}/after").code == 200


def test_a_damaged_journal_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _, journal = opened_at(path)
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"nonsense\n", *lines[2:]]))
    with pytest.raises(JournalBroken, match=r"line 2: .*; move it away"):
        opened_at(path)


def test_a_journal_that_is_mostly_history_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    store, journal = opened_at(path)
    made = b'{"metadata":{"name":"m"},"data":{"n":"%d"}}'
    maps = "/api/v1/namespaces/default/configmaps"
    store.handle("POST", maps, body=made % 0)
    for number in range(1, WINDOW + 10):
        store.handle("PUT", f"{maps}/m", body=made % number)
    store.handle("POST", maps, body=b'{"metadata":{"name":"gone"}}')
    store.handle("DELETE", f"{maps}/gone")
    journal.close()
    long = path.stat().st_size
    again, journal = opened_at(path)
    journal.close()
    assert path.stat().st_size < long / 100
    third, journal = opened_at(path)
    journal.close()
    for opened in (again, third):
        assert opened.objects.version == store.objects.version
        assert opened.handle("GET", f"{maps}/m").body == store.handle("GET", f"{maps}/m").body
        old = opened.watch(maps, {"resourceVersion": str(store.objects.version - 1)})
        assert b'"code":410' in old.pull()[0]
