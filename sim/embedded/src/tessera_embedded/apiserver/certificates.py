"""A certificate authority and a server certificate, made once in a folder and then kept.

For loopback use: the keys lie next to the certificates, readable by their owner only.
"""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

_VALID = timedelta(days=3650)
_Key = ec.EllipticCurvePrivateKey


class ServerCertificates(Struct, frozen=True):
    """Where the certificates of one server lie."""

    ca: Path
    certificate: Path
    key: Path


def certificates(folder: Path, host: str) -> ServerCertificates:
    """The certificates in a folder, made now where they are missing."""
    found = ServerCertificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    if not all(path.exists() for path in (found.ca, found.certificate, found.key)):
        ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(
            ec.SECP256R1())  # fmt: skip
        ca = _authority(ca_key, "tessera-embedded-ca")
        _keep(found.key, _pem_key(key))
        found.certificate.write_bytes(_pem(_server(key, ca, ca_key, host)))
        found.ca.write_bytes(_pem(ca))
    return found


class FrontProxyCertificates(Struct, frozen=True):
    """What the server shows to extension servers, to which it passes requests on."""

    ca: Path
    """Who signed it, for them to know."""
    shown: Path
    """Certificate and key."""
    name: str = "front-proxy-client"


def front_proxy(folder: Path) -> FrontProxyCertificates:
    """The one in a folder, made now where it is missing."""
    found = FrontProxyCertificates(folder / "front-proxy-ca.crt", folder / "front-proxy.pem")
    if not (found.ca.exists() and found.shown.exists()):
        ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(
            ec.SECP256R1())  # fmt: skip
        ca = _authority(ca_key, "tessera-embedded-front-proxy-ca")
        _keep(found.shown, _pem_key(key) + _pem(_client(key, found.name, ca, ca_key)))
        found.ca.write_bytes(_pem(ca))
    return found


def server_tls(found: ServerCertificates) -> ssl.SSLContext:
    """The TLS context of the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(found.certificate, found.key)
    return context


def _keep(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: str, key: _Key, issuer: str, issuer_key: _Key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _authority(key: _Key, name: str) -> x509.Certificate:
    return (
        _builder(name, key, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _server(key: _Key, ca: x509.Certificate, ca_key: _Key, host: str) -> x509.Certificate:
    addresses = {"127.0.0.1", "::1", host}
    names: list[x509.GeneralName] = [
        x509.DNSName(name)
        for name in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    ]
    names.extend(_general(address) for address in sorted(addresses))
    return (
        _builder("kube-apiserver", key, _common_name(ca), ca_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )  # fmt: skip


def _client(key: _Key, name: str, ca: x509.Certificate, ca_key: _Key) -> x509.Certificate:
    return (
        _builder(name, key, _common_name(ca), ca_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )  # fmt: skip


def _common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _general(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
