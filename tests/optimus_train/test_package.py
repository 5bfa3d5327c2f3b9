import ast
import sys
from pathlib import Path

import pytest

import optimus_train

FILES = sorted(Path(optimus_train.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_standard_library_and_syntax_of_python_3_8_are_used(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    roots = {(getattr(node, "module", None) or node.names[0].name).split(".")[0] for node in imports}
    assert roots <= set(sys.stdlib_module_names) | {"optimus_train"}


def test_all_that_is_promised_is_there():
    assert all(hasattr(optimus_train, name) for name in optimus_train.__all__)
