"""Run by path: beside the standard library, only this folder's package can be imported."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
import_module("shim.main").main(sys.argv[1])
