"""Replicas are pods of a Kubernetes cluster."""

from optimus_core.cluster.kubernetes.cluster import KubernetesCluster

__all__ = ["KubernetesCluster"]
