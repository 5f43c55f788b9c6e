"""What `spark-submit` runs: `spark-submit ... svead_spark/__main__.py score ...` is `svead-stream spark score ...`."""

import sys

from svead_spark.cli import spark
from svead_stream.cli import cli, main

cli.add_command(spark)  # a zip that was handed to Spark has no entry points
main(["spark", *sys.argv[1:]])
