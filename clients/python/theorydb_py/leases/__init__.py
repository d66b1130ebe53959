"""Leases: mutual exclusion between processes, for a bounded time."""

from theorydb_py.leases._manager import Lease, LeaseKey, LeaseManager

__all__ = ["Lease", "LeaseKey", "LeaseManager"]
