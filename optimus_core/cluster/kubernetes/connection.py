"""The connection to a declared Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from optimus_core.errors import SpecificationError

POOL = 16
"""Calls at a time of one process."""


def connect(name: str, declaration: Mapping[str, Any]) -> client.ApiClient:
    """Return a client for a cluster as ``clusters.yaml`` declares it; nothing is sent yet.

    Tokens from files and from commands are read again when they have changed or run out: the official client does it.

    Raises:
        SpecificationError: the way to it that is declared leads nowhere.
    """
    settings = client.Configuration()
    try:
        if declaration.get("in_cluster"):
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(
                config_file=declaration.get("config_file"),
                context=declaration.get("context"),
                client_configuration=settings,
            )
    except (ConfigException, OSError) as error:
        raise SpecificationError(f'cluster "{name}" can\'t be reached as it is declared: {error}') from error
    settings.connection_pool_maxsize = POOL
    settings.retries = False  # we know better which calls may be made again
    return client.ApiClient(settings)
