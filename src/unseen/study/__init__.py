"""Comparisons of methods over domains: tasks, a protocol, a store of results, and tables."""

from ._methods import METHODS
from ._protocol import Protocol
from ._run import run
from ._store import Row, Store
from ._tasks import Task, tasks

__all__ = ["METHODS", "Protocol", "Row", "Store", "Task", "run", "tasks"]
