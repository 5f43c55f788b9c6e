"""The Python of the workers, looked at before a job fails over it."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import which

from pyspark.sql import SparkSession

from svead_stream.errors import SveadError

_PROBE = """
import sys, importlib.util
print("%d.%d" % sys.version_info[:2], *[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])
"""
_LIBRARIES = ("numpy", "numba", "sklearn", "pandas", "pyarrow")


def check_workers(spark: SparkSession) -> None:
    """Refuse a session on this machine whose workers are a Python that cannot run what is sent to them.

    Spark starts `python3` of the path unless it is told otherwise, which is another one where an environment is used
    without being activated. Workers on other machines only a job could ask.

    Raises
    ------
    SveadError
        That names the variable to set, and its value.
    """
    context = spark.sparkContext
    problem = _problem_of(context.pythonExec) if str(context.master).startswith("local") else None
    if problem is not None:
        raise SveadError(
            f"the workers of this session run {context.pythonExec}, which {problem}: "
            f"set PYSPARK_PYTHON={sys.executable} before the session is made"
        )


@cache
def _problem_of(python: str) -> str | None:
    """What is wrong with an interpreter; None if it can do the work."""
    found = which(python)
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return None
    ours = ("svead_spark",) if Path(__file__).is_file() else ()  # not if it is in a zip that Spark hands out
    try:
        asked = subprocess.run([python, "-c", _PROBE, *_LIBRARIES, *ours], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "cannot be started"
    version, *missing = asked.stdout.split()
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != here:
        return f"is Python {version} and not {here}"
    return f"has no {missing[0]}" if missing else None
