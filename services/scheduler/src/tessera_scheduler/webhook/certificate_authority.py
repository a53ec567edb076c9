"""Tessera's own certificate authority and the webhook's certificate: what is due, and making it.

An authority is published before it issues and stays published while anything that it issued may
be in use, so a client with any recent bundle accepts any recent certificate. Renewal comes
when a third of a life is left.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

MAX_NAMES: Final = 32
"""Names of one certificate. Names that another replica needs are kept, or two of them would make
certificates in turn."""
_EARLY_S: Final = 3600.0
"""Certificates begin this long before now: clocks differ."""


class CertificateLifetimes(Struct, frozen=True, kw_only=True):
    """For how long things are valid, in seconds."""

    authority_s: float
    serving_s: float
    overlap_s: float
    """An authority issues only when it has been published for this long."""


class Authority(Struct, frozen=True, kw_only=True):
    """What others trust. PEM; times are Unix time in seconds."""

    cert: str
    key: str
    made: float
    until: float


class Issued(Struct, frozen=True, kw_only=True):
    """Authorities, the oldest first, and the certificate that is served."""

    authorities: tuple[Authority, ...]
    cert: str
    key: str
    names: tuple[str, ...]
    made: float
    until: float

    @property
    def bundle(self) -> str:
        """What the certificate is to be checked with, now and in the near future."""
        return "".join(authority.cert for authority in self.authorities)

    @property
    def served(self) -> str:
        """Certificate and key, for one file."""
        return self.cert + self.key


def due(
    had: Issued | None, names: Sequence[str], now: float, lives: CertificateLifetimes
) -> Issued:
    """What has to be served now; the same object where nothing is due."""
    authorities = had.authorities if had else ()
    alive = tuple(a for a in authorities if a.until > now)
    if not alive or _is_old(alive[-1].made, alive[-1].until, now):
        alive = (*alive, _authority(now, lives))
    if had is not None and _serves(had, names, now):
        return had if alive == authorities else _with(had, alive)
    ripe = [a for a in alive if now - a.made >= lives.overlap_s]
    issuer = ripe[-1] if ripe else alive[0]
    until = min(now + lives.serving_s, issuer.until)
    good_for = tuple(dict.fromkeys((*names, *(had.names if had else ()))))[:MAX_NAMES]
    cert, key = _serving(issuer, good_for, now, until)
    return Issued(authorities=alive, cert=cert, key=key, names=good_for, made=now, until=until)


def _serves(had: Issued, names: Sequence[str], now: float) -> bool:
    return set(names) <= set(had.names) and not _is_old(had.made, had.until, now)


def _with(had: Issued, authorities: tuple[Authority, ...]) -> Issued:
    return Issued(
        authorities=authorities,
        cert=had.cert,
        key=had.key,
        names=had.names,
        made=had.made,
        until=had.until,
    )


def _is_old(made: float, until: float, now: float) -> bool:
    return now >= made + (until - made) * 2 / 3


def _authority(now: float, lives: CertificateLifetimes) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tessera webhook authority")])
    until = now + lives.authority_s
    cert = (
        _begun(name, name, key, now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    return Authority(cert=_pem(cert), key=_key_pem(key), made=now, until=until)


def _serving(
    issuer: Authority, names: Sequence[str], now: float, until: float
) -> tuple[str, str]:  # fmt: skip
    by = x509.load_pem_x509_certificate(issuer.cert.encode())
    by_key = serialization.load_pem_private_key(issuer.key.encode(), None)
    if not isinstance(by_key, ec.EllipticCurvePrivateKey):
        raise ValueError("authority: its key is not of an elliptic curve")  # noqa: TRY004  (data)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tessera webhook")])
    cert = (
        _begun(name, by.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_named, names))), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(by_key.public_key()),
            critical=False,
        )
        .sign(by_key, hashes.SHA256())
    )
    return _pem(cert), _key_pem(key)


def _begun(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, until: float
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now - _EARLY_S, UTC))
        .not_valid_after(datetime.fromtimestamp(until, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates,
        crl_sign=signs_certificates, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _named(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(cert: x509.Certificate) -> str:
    return cert.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
