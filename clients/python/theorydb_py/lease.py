"""theorydb_py.leases by the name that TableTheory gives it."""

from theorydb_py.leases import Lease, LeaseKey, LeaseManager

__all__ = ["Lease", "LeaseKey", "LeaseManager"]
