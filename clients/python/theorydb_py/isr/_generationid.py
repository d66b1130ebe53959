"""Generation ids."""

from __future__ import annotations

from theorydb_py._times import from_epoch


def generation_id(now: float, token: str) -> str:
    """Return an id that is as unique as the token and sorts by time."""
    micros = round(now * 1_000_000)
    second = from_epoch(micros // 1_000_000)
    return f"{second:%Y%m%dT%H%M%S}.{micros % 1_000_000:06d}Z-{token.lower()}"
