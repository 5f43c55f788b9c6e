"""Compiles the kernels when the package is built: see `svead_stream/kernels/precompiled.py`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Precompile(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.app.display_info("compiling the kernels, for half a minute")
        command = [sys.executable, "-c", "from svead_stream.warm import precompile; precompile()"]
        subprocess.run(command, cwd=self.root, check=True)
        build_data |= {"pure_python": False, "infer_tag": True}
