"""A Spark cluster on one machine, with executors in processes of their own, for benchmarks and tests."""

from __future__ import annotations

import sys
from pathlib import Path

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n
"""


def environment(folder: Path) -> dict[str, str]:
    """Variables to set before Spark starts.

    Executors write into Spark's home, so it gets one in this folder: links to what pyspark has installed.
    """
    import pyspark

    home = folder / "home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "log4j2.properties").write_text(LOGGING)
    return {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(home / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def settings(executors: int, folder: Path) -> dict[str, str]:
    """Configuration of a session with so many executors of one core and one gigabyte."""
    return {
        "spark.master": f"local-cluster[{executors},1,1024]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
