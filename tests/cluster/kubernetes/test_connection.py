"""A way to a cluster that leads nowhere: the error names the file, what is wrong with it and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimus_core.cluster.kubernetes.connection import connect
from optimus_core.errors import SpecificationError

CONFIG = """
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: x}}]
"""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "No configuration found", id="no-file"),
        pytest.param("", "file is empty", id="empty"),
        pytest.param("a: [", "line 1", id="no-yaml"),
        pytest.param("- a", "it is no kubeconfig", id="a-list"),
        pytest.param("hello", "it is no kubeconfig", id="a-text"),
        pytest.param("\udcff\udcfe", "it is no kubeconfig", id="no-text"),
        pytest.param(CONFIG.replace("current-context", "other"), "current-context", id="no-present-context"),
        pytest.param(CONFIG.replace("cluster: a,", "cluster: b,"), "name b", id="no-such-cluster"),
    ],
)
def test_a_config_file_that_can_not_be_used_is_named_with_what_to_write(
    tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(SpecificationError) as refused:
        connect("k", {"config_file": str(path)})
    told = str(refused.value)
    assert told.startswith(f'cluster "k" can\'t be reached by its config_file "{path}": ')
    assert said in told
    assert "Write the path of a kubeconfig" in told
    assert "\n" not in told


def test_a_context_that_is_not_in_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG)
    assert connect("k", {"config_file": str(tmp_path / "config"), "context": "a"}).configuration.host
    with pytest.raises(SpecificationError, match=r'with the context "moon": .*kubectl config get-contexts'):
        connect("k", {"config_file": str(tmp_path / "config"), "context": "moon"})


def test_in_cluster_outside_of_any_says_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SpecificationError, match=r"in no pod of it: .* Write config_file: ~/.kube/config"):
        connect("k", {"in_cluster": True})
