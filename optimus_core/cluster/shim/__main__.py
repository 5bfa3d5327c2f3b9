"""Run by path: beside the standard library, only this folder's package can be imported.

It detaches before it imports anything, so that the creator waits for little.
"""

import os
import sys
from importlib import import_module

if os.fork():
    os._exit(0)
os.setsid()
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import_module("shim.main").main(sys.argv[1])
