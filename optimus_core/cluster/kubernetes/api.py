"""Calls of the Kubernetes API: plain JSON in and out, errors in our own words.

The official client does the connection, its certificates and tokens; its models are left out, since reading a
thousand pods into them takes seconds.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from optimus_core.errors import (
    ClusterRefusesNow,
    ClusterUnavailable,
    OptimusError,
    PermissionMissing,
    SpecificationError,
)

Json = dict[str, Any]
_T = TypeVar("_T")

CONNECT_SECONDS, READ_SECONDS = 5, 15
"""An API server whose etcd is away answers nothing at all: a job's step must not hang on it for long."""
_PAGE = 500
_PAUSES = (0.2, 1.0)
"""Seconds before a call that met 429, 5xx or another request is made again."""
_LONGEST_PAUSE = 5.0
"""Seconds that a call waits at most if the server says how long to wait; asked for more, it gives up at once."""
_MOST_LISTS = 3
"""Times that a list is begun, if the server lets go of it between two pages."""
_FORBIDDEN = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "[^"]*"(?: in the namespace "(?P<space>[^"]+)")?'
)
_FOR_NOW = ("exceeded quota", "is being terminated", "no quota", "status unknown for quota")
"""Refusals that end without the request being changed."""
_OVERTAKEN = "the object has been modified"
"""No word on our request: another came between, as of two pods under one quota (kubernetes/kubernetes#67761)."""


class NotFound(OptimusError):
    """The object is not there."""


class Conflict(OptimusError):
    """The object exists already, or is another one than was meant."""


class Gone(ClusterUnavailable):
    """What was to be read on from is not kept any more; the same can be asked for from the start."""


class Api:
    """One API server.

    Args:
        name: the declared name of the cluster, for errors.
        connection: the official client.
    """

    def __init__(self, name: str, connection: client.ApiClient) -> None:
        self.name = name
        self._connection = connection

    def get(self, path: str, **query: Any) -> Json:
        """Return one object."""
        return self._json("GET", path, query)

    def items(self, path: str, **query: Any) -> Iterator[Json]:
        """Return all objects of a list, read from the database and not from a cache, page by page.

        A list that the server has let go of between two pages (410) is read anew, so that it is of one moment.

        Raises:
            ClusterUnavailable: that happened several times, or nothing can be said now.
        """
        for _ in range(_MOST_LISTS):
            try:
                return iter(self._pages(path, query))
            except Gone as error:
                gone = error
        raise ClusterUnavailable(f"{gone} ({_MOST_LISTS} times in a row)") from gone

    def _pages(self, path: str, query: Mapping[str, Any]) -> list[Json]:
        found: list[Json] = []
        token = None
        while True:
            page = self._json("GET", path, {**query, "limit": _PAGE, "continue": token})
            found += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return found

    def create(self, path: str, body: Json, **query: Any) -> Json:
        """Make an object.

        Raises:
            Conflict: there is one of its name.
        """
        return self._json("POST", path, query, body)

    def patch(self, path: str, body: Json) -> Json:
        """Change an object by a merge patch."""
        return self._json("PATCH", path, {}, body, "application/merge-patch+json")

    def delete(self, path: str, body: Json) -> None:
        """Ask for the end of an object; one that is not there is no error."""
        try:
            self._json("DELETE", path, {}, body)
        except NotFound:
            return

    def text(self, path: str, **query: Any) -> bytes:
        """Return what is no JSON, such as a log."""
        return self._retried(lambda: self._call("GET", path, query, None, None))

    @contextmanager
    def stream(self, path: str, **query: Any) -> Iterator[Iterator[bytes]]:
        """Open what is sent as it comes, such as a log that is followed; a silence of ``READ_SECONDS`` is an error.

        Raises:
            ClusterUnavailable: it can't be had now.
            HTTPError: the connection broke, which is seen while it is read.
        """
        try:
            answer = self._send("GET", path, query, None, None)
        except ApiException as error:
            raise translated(error, self.name) from error
        try:
            yield answer.stream(amt=None, decode_content=False)
        finally:
            answer.close()  # half-read, it can carry no other call
            answer.release_conn()

    def _json(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None, kind: str | None = None
    ) -> Json:
        try:
            data = self._retried(lambda: self._call(method, path, query, body, kind))
        except Conflict as error:
            if method != "GET":
                raise
            raise ClusterUnavailable(str(error)) from error  # nothing can be in a reader's way: no word on the object
        try:
            found = json.loads(data)
        except ValueError as error:
            told = data[:200].decode("utf-8", "replace")
            raise ClusterUnavailable(f"cluster {self.name} answered something else than JSON: {told}") from error
        return found if isinstance(found, dict) else {}

    def _call(self, method: str, path: str, query: Mapping[str, Any], body: Any, kind: str | None) -> bytes:
        return bytes(self._send(method, path, query, body, kind).data)

    def _send(self, method: str, path: str, query: Mapping[str, Any], body: Any, kind: str | None) -> Any:
        return self._connection.call_api(
            path,
            method,
            query_params=[(key, value) for key, value in query.items() if value is not None],
            header_params={"Accept": "application/json, */*", "Content-Type": kind or "application/json"},
            body=body,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
            _request_timeout=(CONNECT_SECONDS, READ_SECONDS),
        )

    def _retried(self, call: Callable[[], _T]) -> _T:
        for pause in (*_PAUSES, None):
            try:
                return call()
            except ApiException as error:
                told = _retry_after(error)
                if pause is None or told > _LONGEST_PAUSE or not _may_pass(error):
                    raise translated(error, self.name) from error
                time.sleep(max(pause, told))
            except (HTTPError, OSError) as error:
                raise ClusterUnavailable(f"cluster {self.name} can't be reached: {_first_line(error)}") from error
        raise AssertionError("not reached")


def _may_pass(error: ApiException) -> bool:
    status = error.status or 0
    return status == 429 or status >= 500 or (status == 409 and _OVERTAKEN in _message(error))


def _retry_after(error: ApiException) -> float:
    """Return the seconds that the server asks to wait, 0 if it does not say, or says a date."""
    told = str((error.headers or {}).get("Retry-After") or "")
    return float(told) if told.isdecimal() else 0.0


def translated(error: ApiException, cluster: str) -> OptimusError:
    """Return an answer of the API server as our own error."""
    message = _message(error)
    if error.status == 409 and _OVERTAKEN in message:
        return ClusterUnavailable(f"cluster {cluster}: {message}")
    simple: dict[int, type[OptimusError]] = {404: NotFound, 409: Conflict, 410: Gone}
    if error.status in simple:
        return simple[error.status](f"cluster {cluster}: {message}")
    if error.status == 403:
        return _forbidden(message, cluster)
    if error.status in (400, 413, 422):
        return SpecificationError(f"cluster {cluster} refuses it: {message}")
    if error.status == 401:
        return ClusterUnavailable(f"cluster {cluster} does not accept our credentials (401). Renew them.")
    return ClusterUnavailable(f"cluster {cluster} answered {error.status}: {message}")


def _forbidden(message: str, cluster: str) -> OptimusError:
    lacking = _FORBIDDEN.search(message)
    if lacking is not None:
        where = f'in namespace "{lacking["space"]}"' if lacking["space"] else "at the cluster scope"
        return PermissionMissing(
            f"cluster {cluster}: Optimus may not {lacking['verb']} {lacking['resource']} {where}. "
            f"Grant its service account that permission; the chart's role has it. ({message})"
        )
    if any(words in message for words in _FOR_NOW):
        return ClusterRefusesNow(message)
    return SpecificationError(f"cluster {cluster} refuses it: {message}")


def _message(error: ApiException) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.body or error.reason or "no reason given")[:500]


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
