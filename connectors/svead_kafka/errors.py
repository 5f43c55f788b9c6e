"""What can go wrong in a worker, as one small tree of exceptions.

SveadError
  └─ WorkerError               base of the three, never raised itself
       ├─ ConfigurationError   the options cannot work; starting again does not help
       ├─ StateError           the saved state does not fit the options, or cannot be read
       └─ GaveUp               the cluster stayed out of reach; a supervisor should start the worker again
"""

from __future__ import annotations

from svead_stream.errors import SveadError

EXIT_GAVE_UP = 75  # sysexits' "temporary failure": supervisors restart on it
EXIT_STALLED = 76


class WorkerError(SveadError):
    """Base of all that a worker raises on its own account."""


class ConfigurationError(WorkerError):
    """The options cannot work: a missing topic, an unknown client property, a value out of range."""


class StateError(WorkerError):
    """The saved state does not fit the options, or cannot be read."""


class GaveUp(WorkerError):
    """Every retry failed; the worker leaves it to its supervisor to start it again."""
