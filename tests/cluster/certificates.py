"""A certificate authority of a test cluster, and kubeconfig files made with it."""

from __future__ import annotations

import base64
import datetime
import errno
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=2)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Writes NAME.crt and NAME.key (mode 0600)."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """Issues certificates for the server and for users; good for two days."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-cluster-ca")])
        made = self._builder(self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = _usage(signs_certificates=True)
        self._certificate = made.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self) -> Pair:
        """For 127.0.0.1 and localhost."""
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.DNSName("kubernetes"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        return self._issue("kube-apiserver", (), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def user(self, name: str, groups: tuple[str, ...]) -> Pair:
        return self._issue(name, groups, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        name: str,
        groups: tuple[str, ...],
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(subject, key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        made = made.add_extension(_usage(signs_certificates=False), critical=True)
        if names is not None:
            made = made.add_extension(names, critical=False)
        signed = made.sign(self._key, hashes.SHA256())
        return Pair(signed.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + LIFETIME)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return made.add_extension(identifier, critical=False).add_extension(issuer, critical=False)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key in PEM, SEC1 form, unencrypted."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


class _Socket(ssl.SSLSocket):
    """Closed where the peer is gone before the handshake: ``wrap_socket`` then fails with a socket left open that
    nobody can reach to close it."""

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as error:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "the peer is gone") from error


def server_context(authority: Authority) -> ssl.SSLContext:
    """TLS of the server: asks for a client certificate and takes connections without one (they bring a token)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.pem.decode())
    _load(context, authority.server())
    context.sslsocket_class = _Socket
    return context


def client_context(authority: Authority, pair: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    _load(context, pair)
    context.sslsocket_class = _Socket
    return context


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = pair.write(Path(folder), "pair")
        context.load_cert_chain(certificate, key)


def kubeconfig(server: str, authority: Authority, credential: Pair | str, user: str) -> str:
    """A kubeconfig with everything inside; a credential that is a text is a bearer token."""
    if isinstance(credential, str):
        lines = [f"    token: {credential}"]
    else:
        lines = [f"    client-certificate-data: {_encoded(credential.certificate)}"]
        lines.append(f"    client-key-data: {_encoded(credential.key)}")
    return "\n".join(
        [
            "apiVersion: v1",
            "kind: Config",
            "clusters:",
            "- name: test",
            "  cluster:",
            f"    server: {server}",
            f"    certificate-authority-data: {_encoded(authority.pem)}",
            "users:",
            f"- name: {user}",
            "  user:",
            *lines,
            "contexts:",
            "- name: test",
            "  context:",
            "    cluster: test",
            f"    user: {user}",
            "current-context: test",
            "",
        ]
    )


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
