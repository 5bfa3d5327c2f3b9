"""Certificates of the cluster, and the kubeconfig of its administrator."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.cluster.testbed.layout import DOMAIN, FIRST_SERVICE

_YEARS = dt.timedelta(days=3650)


class Authority:
    """A certificate authority that writes what it signs into ``folder``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.key = self._new_key("ca")
        self.name = _name("optimus-testbed")
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)  # Python 3.13 demands it
        public = self.key.public_key()
        self.certificate = (
            _builder(self.name, self.name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        self._write("ca", self.certificate)

    def sign(self, file: str, name: x509.Name, extra: x509.ExtensionType) -> None:
        """Write ``file``.key and ``file``.crt for ``name``."""
        public = self._new_key(file).public_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        signed = (
            _builder(name, self.name, public)
            .add_extension(extra, critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        self._write(file, signed)

    def pair(self, file: str) -> None:
        """Write ``file``.key and ``file``.pub, a bare pair of keys."""
        public = self._new_key(file).public_key()
        kind = serialization.PublicFormat.SubjectPublicKeyInfo
        (self.folder / f"{file}.pub").write_bytes(public.public_bytes(serialization.Encoding.PEM, kind))

    def _new_key(self, file: str) -> ec.EllipticCurvePrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        path = self.folder / f"{file}.key"
        path.touch(mode=0o600)
        path.write_bytes(text)
        return key

    def _write(self, file: str, certificate: x509.Certificate) -> None:
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def make(folder: Path, address: str) -> None:
    """Write every key and certificate of a cluster whose API server is at ``address``."""
    authority = Authority(folder)
    whole = ["kubernetes", "default", "svc", *DOMAIN.split(".")]
    names: list[x509.GeneralName] = [x509.DNSName(".".join(whole[:count])) for count in (1, 2, 3, len(whole))]
    addresses = ("127.0.0.1", FIRST_SERVICE, address)
    names += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
    authority.sign("apiserver", _name("kube-apiserver"), x509.SubjectAlternativeName(names))
    client = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    authority.sign("admin", _name("admin", "system:masters"), client)
    authority.pair("accounts")


def write_kubeconfig(file: Path, pki: Path, address: str, name: str) -> None:
    """Write a kubeconfig with the administrator's certificate inside."""

    def encoded(part: str) -> str:
        return base64.b64encode((pki / part).read_bytes()).decode()

    cluster = {"server": f"https://{address}:6443", "certificate-authority-data": encoded("ca.crt")}
    user = {"client-certificate-data": encoded("admin.crt"), "client-key-data": encoded("admin.key")}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }  # fmt: skip
    file.touch(mode=0o600)
    file.write_text(json.dumps(config, indent=1))


def _name(common: str, organization: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key)
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + _YEARS)
