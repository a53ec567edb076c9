import msgspec
import pytest

from tessera_schema.grants import decode_grant
from tessera_schema.messages.device_reports import decode_device, decode_usage
from tessera_schema.messages.hints import decode_hints

DEEP = '{"version":1,"uid":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("text", [DEEP, '{"version":1,"uid":"\ud800"}', "\x00", "NaN"])
def test_whatever_comes_in_it_is_a_decode_error(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_grant(text)


@pytest.mark.parametrize("data", [b'{"node":"\xff"}', b'{"node":"\xc3"}', b"\xff"])
def test_bytes_that_are_no_text_are_a_decode_error(data: bytes) -> None:
    for decode in (decode_device, decode_usage, decode_hints):
        with pytest.raises(msgspec.DecodeError):
            decode(data)
