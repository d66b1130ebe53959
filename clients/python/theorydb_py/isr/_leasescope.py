"""Keeps a lease alive while a block of code runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from theorydb_py._heartbeat import Heartbeat
from theorydb_py.errors import LeaseLostError
from theorydb_py.isr import _leaseupdate as leasewrites
from theorydb_py.isr._backend import Connection
from theorydb_py.isr._lease import IsrLease
from theorydb_py.isr._request import end_request
from theorydb_py.isr._requestrow import failed


@contextlib.contextmanager
def lease_scope(connection: Connection, lease: IsrLease, began: float) -> Iterator[None]:
    """Refresh a lease after each third of its duration while a block runs, and release it afterwards.

    ``began`` is the monotonic time at which its acquisition began. Raises
    LeaseLostError if the lease was lost before the block ended, with the block's
    exception as its cause.
    """
    lease.set_heartbeat(_heartbeat(connection, lease, began))
    try:
        yield
    except Exception as error:
        if finish(connection, lease, f"{type(error).__name__}: {error}") and not isinstance(error, LeaseLostError):
            raise _lost_meanwhile(lease) from error
        raise
    except BaseException:
        finish(connection, lease, "the process was interrupted")
        raise
    if finish(connection, lease, "the lease was released without a result"):
        raise _lost_meanwhile(lease)


def finish(connection: Connection, lease: IsrLease, failure: str) -> bool:
    """Stop the heartbeat, end the request record and release the lease; return whether it was lost before.

    Failures are logged, and the rows left to expire.
    """
    lost = lease.lost
    lease.stop_heartbeat()
    lost = lost or lease.lost
    with _logged(connection, lease, "ending the request"):
        end_request(connection, lease, failed(failure))
    if not lease.over or lost:
        with _logged(connection, lease, "releasing"):
            leasewrites.release(connection, lease)
    return lost


def _heartbeat(connection: Connection, lease: IsrLease, began: float) -> Heartbeat:
    return Heartbeat(
        lambda: leasewrites.extend(connection, lease),
        name=lease.pk,
        seconds=lease.duration_seconds,
        acquired_at=began,
        logger=connection.logger,
        monotonic=connection.monotonic,
        wait=connection.wait,
    )


@contextlib.contextmanager
def _logged(connection: Connection, lease: IsrLease, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        connection.logger.warning("%s under the lease of %s failed; it is left to expire: %s", what, lease.pk, error)


def _lost_meanwhile(lease: IsrLease) -> LeaseLostError:
    return LeaseLostError(
        f"the lease of {lease.pk} was lost before the block ended: another process may have done the same work"
    )
