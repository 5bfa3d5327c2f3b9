"""The connection to a declared Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from yaml import YAMLError

from optimus_core.checks import shown
from optimus_core.errors import SpecificationError

POOL = 16
"""Calls at a time of one process."""
_NO_KUBECONFIG = (TypeError, ValueError, AttributeError, KeyError)
"""What the official client raises of a file that holds something else."""


def connect(name: str, declaration: Mapping[str, Any]) -> client.ApiClient:
    """Return a client for a cluster as ``clusters.yaml`` declares it; nothing is sent yet.

    Tokens from files and from commands are read again when they have changed or run out: the official client does it.

    Raises:
        SpecificationError: the way to it that is declared leads nowhere.
    """
    settings = client.Configuration()
    if declaration.get("in_cluster"):
        _load_of_pod(name, settings)
    else:
        _load_of_file(name, declaration.get("config_file"), declaration.get("context"), settings)
    settings.connection_pool_maxsize = POOL
    settings.retries = False  # we know better which calls may be made again
    return client.ApiClient(settings)


def _load_of_pod(name: str, settings: client.Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)
    except (ConfigException, OSError) as error:
        raise SpecificationError(
            f'cluster "{name}" is declared with in_cluster: true, but this process runs in no pod of it: '
            f"{_one_line(error)}. Write config_file: ~/.kube/config instead to reach it from here."
        ) from error


def _load_of_file(name: str, file: str | None, context: str | None, settings: client.Configuration) -> None:
    try:
        config.load_kube_config(config_file=file, context=context, client_configuration=settings)
    except (ConfigException, OSError, YAMLError, *_NO_KUBECONFIG) as error:
        said = "it is no kubeconfig" if isinstance(error, _NO_KUBECONFIG) else _one_line(error)
        of = f" with the context {shown(context)}" if context else ""
        raise SpecificationError(
            f'cluster "{name}" can\'t be reached by its config_file {shown(file)}{of}: {said}. Write the path of a '
            "kubeconfig that can be read here, and a context that is in it (kubectl config get-contexts lists them)."
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
