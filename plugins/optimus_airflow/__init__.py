"""Optimus in Airflow: operator, sensor, trigger, links and plugin. Thin: what is decided is decided in optimus_core."""

import sys
from importlib.util import find_spec
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2]
if find_spec("optimus_core") is None and (_BESIDE / "optimus_core").is_dir():
    sys.path.append(str(_BESIDE))  # used from Airflow's plugins folder, out of a checkout
