"""The report: what happened in a run, as one HTML file that needs nothing else."""

from __future__ import annotations

from svead_stream.report.record import Alert, Recorder
from svead_stream.report.render import render

__all__ = ["Alert", "Recorder", "render"]
