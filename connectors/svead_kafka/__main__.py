"""``python -m svead_kafka``: the `kafka` command without the rest of the command line."""

from svead_stream.cli import main

if __name__ == "__main__":
    import sys

    main(["kafka", *sys.argv[1:]])
