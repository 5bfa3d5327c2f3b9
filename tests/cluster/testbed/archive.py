"""Container images as OCI archives: one layer, the tar file of a root file system."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.testbed.errors import ClusterError
from tests.cluster.testbed.machine import ARCHITECTURES

_NAME = re.compile(r"[a-z0-9][a-z0-9./_-]*:[\w][\w.-]*")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def full_name(name: str) -> str:
    """Return the name under which containerd knows the image ``name:tag``.

    Raises:
        ClusterError: it has no tag, or one that makes the kubelet pull it.
    """
    if not _NAME.fullmatch(name) or name.endswith(":latest"):
        raise ClusterError(
            f'"{name}" can\'t name an image; write name:tag, with another tag than latest (kubelet pulls it)'
        )
    first, slash, _ = name.partition("/")
    if slash and "." in first:
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def write(archive: Path, name: str, layer: Path, entrypoint: Sequence[str] = ()) -> None:
    """Write the image ``name`` whose only layer is the tar file ``layer``."""
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = _json(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Env": [_PATH]} | ({"Entrypoint": list(entrypoint)} if entrypoint else {}),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _kind("manifest.v1+json"),
            "config": _described(config, "config.v1+json"),
            "layers": [
                {"mediaType": _kind("layer.v1.tar"), "digest": f"sha256:{digest}", "size": layer.stat().st_size}
            ],
        }
    )
    named = _described(manifest, "manifest.v1+json") | {"annotations": {"io.containerd.image.name": full_name(name)}}
    index = _json({"schemaVersion": 2, "manifests": [named]})
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", index)
        for blob in (config, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        tar.add(layer, f"blobs/sha256/{digest}")


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _kind(name: str) -> str:
    return f"application/vnd.oci.image.{name}"


def _described(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": _kind(kind), "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
