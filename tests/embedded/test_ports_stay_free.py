"""A port is nobody else's from the moment in which it is chosen, whatever starts late or again."""

from __future__ import annotations

import socket

import pytest

from tessera_embedded.ports import reserved_ports


def test_who_was_promised_a_port_can_listen_there_again_and_again() -> None:
    with reserved_ports(2) as (port, other):
        assert port != other
        for _ in range(2):
            with (
                socket.create_server(("127.0.0.1", port)),
                socket.create_connection(("127.0.0.1", port)),
            ):
                pass


def test_until_somebody_listens_there_nobody_answers() -> None:
    with reserved_ports(1) as (port,), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_who_wants_any_port_does_not_get_one_that_is_taken() -> None:
    with reserved_ports(1) as (port,):
        for _ in range(200):
            with socket.create_server(("127.0.0.1", 0)) as another:
                assert another.getsockname()[1] != port
