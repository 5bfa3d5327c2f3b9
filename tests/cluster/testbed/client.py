"""Requests to the API server as its administrator, as few as the test cluster itself needs."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class Client:
    """Talks to the API server of one cluster; tests use the real Kubernetes client."""

    def __init__(self, address: str, pki: Path) -> None:
        self.address = address
        self.tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self.tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def request(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Return the status and the parsed answer of a GET, or of a POST of ``body``; (0, None) if nobody answers."""
        connection = http.client.HTTPSConnection(self.address, 6443, context=self.tls, timeout=10)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith("{") else text
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def ready(self) -> bool:
        """Return whether the API server says so."""
        return self.request("/readyz")[0] == 200

    def nodes(self) -> dict[str, tuple[bool, dict[str, str]]]:
        """Return for each node whether it is Ready and what it can give to pods."""
        items = (self.request("/api/v1/nodes")[1] or {}).get("items", [])
        return {item["metadata"]["name"]: (_is_ready(item), item["status"].get("allocatable", {})) for item in items}

    def count_ready(self) -> int:
        """Return how many nodes are Ready."""
        return sum(ready for ready, _ in self.nodes().values())


def healthy(url: str) -> bool:
    """Return whether a component's own health address answers 200; its certificate is not looked at."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        return False


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
