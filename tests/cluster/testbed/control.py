"""The command lines of what runs once for a cluster: etcd, the control plane, kube-proxy, CoreDNS, kwok."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.testbed.layout import DOMAIN, PODS, SERVICES, Options, nodes, write

Commands = dict[str, list[str]]


def store_and_api(bed: Path, programs: dict[str, Path], address: str) -> Commands:
    """Return how etcd and the API server are started; they come first."""
    pki = bed / "pki"
    etcd = ["--name=testbed", f"--data-dir={bed}/etcd", "--unsafe-no-fsync", "--log-level=warn"]
    etcd += [f"--{which}-client-urls=http://127.0.0.1:2379" for which in ("listen", "advertise")]
    etcd += ["--listen-peer-urls=http://127.0.0.1:2380"]
    api = [
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={address}",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={pki}/accounts.pub",
        f"--service-account-signing-key-file={pki}/accounts.key",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",  # logs and exec then need no names of hosts
        f"--cert-dir={bed}/run",
    ]
    return {"etcd": [str(programs["etcd"]), *etcd], "kube-apiserver": [str(programs["kube-apiserver"]), *api]}


def others(bed: Path, programs: dict[str, Path], address: str, options: Options) -> Commands:
    """Return how the rest is started, and write what it reads."""
    account, run = f"--kubeconfig={bed}/kubeconfig", f"--cert-dir={bed}/run"
    manager = [account, run, "--leader-elect=false", f"--root-ca-file={bed}/pki/ca.crt"]
    manager += [f"--service-account-private-key-file={bed}/pki/accounts.key"]
    manager += [f"--node-monitor-grace-period={options.grace}s"]
    manager += [f"--node-monitor-period={max(1, min(5, options.grace // 4))}s"]
    _write_proxy(bed)
    _write_corefile(bed, address)
    lines = {
        "kube-controller-manager": manager,
        "kube-scheduler": [account, run, "--leader-elect=false"],
        "kube-proxy": [f"--config={bed}/proxy.json"],
        "coredns": ["-conf", f"{bed}/Corefile"],
    }
    if options.fake_nodes:
        lines["kwok"] = [account, "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"]
        lines["kwok"] += [f"--node-lease-duration-seconds={max(4, options.grace * 4 // 5)}"]
        lines["kwok"] += [f"--config={programs['stages.yaml']}"]
    return {name: [str(programs[name]), *line] for name, line in lines.items()}


def health(bed: Path, address: str) -> dict[str, str]:
    """Return where components say that they are well."""
    kubelets = {f"kubelet-{node.letter}": f"http://{address}:{node.port - 2}/healthz" for node in nodes(bed)}
    return kubelets | {
        "kube-controller-manager": f"https://{address}:10257/healthz",
        "kube-scheduler": f"https://{address}:10259/healthz",
        "kube-proxy": f"http://{address}:10256/healthz",
        "coredns": f"http://{address}:8181/ready",
    }


def _write_proxy(bed: Path) -> None:
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": f"{bed}/kubeconfig"},
        "clusterCIDR": PODS,
        "conntrack": {"maxPerCore": 0},
        "hostnameOverride": nodes(bed)[0].name,
        "oomScoreAdj": 0,
    }
    write(bed / "proxy.json", json.dumps(config, indent=1))


def _write_corefile(bed: Path, address: str) -> None:
    """Two blocks, since ``template`` would answer before ``kubernetes`` in one; the last says no to all else."""
    write(
        bed / "Corefile",
        f"""(common) {{
    bind {" ".join(node.gateway for node in nodes(bed))}
    errors
    cache 1
}}
{DOMAIN} in-addr.arpa {{
    import common
    ready {address}:8181
    kubernetes {{
        kubeconfig {bed}/kubeconfig
        pods insecure
    }}
}}
. {{
    import common
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
""",
    )
