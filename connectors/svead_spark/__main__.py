"""What `spark-submit` runs: `spark-submit ... svead_spark/__main__.py score ...` is `svead-stream spark score ...`."""

import sys

from svead_stream.cli import main

main(["spark", *sys.argv[1:]])
