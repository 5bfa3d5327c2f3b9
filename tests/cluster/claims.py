"""A claim for checkpoints that every node reaches."""

from __future__ import annotations

from typing import Any

CLAIM = "checkpoints"


def make_claim(core: Any, namespace: str, mode: str = "ReadWriteMany") -> str:
    """Make a claim named ``CLAIM`` on a static volume: the nodes of the test cluster share one disk.

    Args:
        core: the official client's CoreV1Api.
        namespace: where the claim is made.
        mode: what the claim and its volume say of who may write.

    Returns:
        The volume's name. It belongs to no namespace, so that who has made it must delete it.
    """
    volume, size, modes = f"{CLAIM}-{namespace}", {"storage": "1Gi"}, [mode]
    host = {"path": f"/var/lib/optimus-test/{namespace}", "type": "DirectoryOrCreate"}
    bound = {"capacity": size, "accessModes": modes, "hostPath": host, "storageClassName": ""}
    mine = {"claimRef": {"name": CLAIM, "namespace": namespace}}
    core.create_persistent_volume({"metadata": {"name": volume}, "spec": bound | mine})
    wanted = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": volume}
    core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": CLAIM}, "spec": wanted})
    return volume
