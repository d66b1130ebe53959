"""The worker in Python. It executes the commands of protocol_test.go."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import boto3
from theorydb_py import FaceTheoryIsrMetaStore, LeaseHeldError, TheorydbError
from theorydb_py.isr import Assertion, Entry, IsrLease, Mark, PurgeTarget, hashed_partition

Json = dict[str, Any]
PATIENCE = 60.0
"""Seconds to wait for the loss of a lease."""


class Worker:
    """The store, and the leases acquired from it, by cache key."""

    def __init__(self) -> None:
        self.client = boto3.client("dynamodb")
        self.table = ""
        self.leases: dict[str, IsrLease] = {}
        self.kept: dict[str, contextlib.ExitStack] = {}

    def open(self, c: Json) -> None:
        self.table = c["table"]
        self.store = FaceTheoryIsrMetaStore(self.client, self.table, lease_owner=c["owner"])
        self.leases.clear()

    # --- Reading ------------------------------------------------------------

    def read(self, c: Json) -> Json:
        record = self.store.read(c["key"])
        current = self.store.get(c["key"])
        page: Json = {
            "entry": said_of(record.entry),
            "state": str(current.state) if current else "",
            "cover": {"seq": record.purges.seq, "hard_seq": record.purges.hard_seq, "at": record.purges.at},
        }
        if record.lock:
            page["lock"] = {
                "owner": record.lock.owner,
                "expires_at": record.lock.lease_expires_at,
                "failures": record.lock.failures,
            }
        if record.malformed:
            page["malformed"] = named(record.malformed, "pk", "sk", "attribute")
        return page

    def versions(self, c: Json) -> list[Json | None]:
        return [said_of(entry) for entry in self.store.versions(c["key"])]

    def request(self, c: Json) -> Json | None:
        found = self.store.request(c["key"], c["request"])
        if found is None:
            return None
        return named(found, "request_hash", "status", "result_s3_key", "generation_id", "in_progress_until", "error")

    def sequence(self, _: Json) -> int:
        return self.store.sequence().seq

    def changes(self, c: Json) -> list[Json]:
        found = self.store.changes(c.get("after", 0))
        for change in found:
            if change.malformed:
                raise change.malformed
        return [
            {
                "seq": change.seq,
                "reload": [page.key for page in change.reload],
                "marks": [marked(mark) for mark in change.marks],
            }
            for change in found
        ]

    # --- Purges -------------------------------------------------------------

    def purge(self, c: Json) -> int:
        targets = [PurgeTarget(**target) for target in c["targets"]]
        return self.store.purge(targets, hard=c.get("hard", False)).seq

    def marks(self, _: Json) -> list[Json]:
        return [marked(mark) for mark in self.store.marks()]

    def covering(self, c: Json) -> Json:
        return named(self.store.covering(c["key"], c.get("tags", ())), "seq", "hard_seq", "at", "mark_lifetime")

    # --- Leases -------------------------------------------------------------

    def acquire(self, c: Json) -> Json:
        lease = self.store.acquire_lease(c["key"], lease_duration_ms=c["lease_ms"], **claim_of(c))
        return self.took(c, lease)

    def took(self, c: Json, lease: IsrLease) -> Json:
        self.leases[c["key"]] = lease
        return {"expires_at": lease.lease_expires_at, "failures": lease.failures, "purge_seq": lease.purge_seq}

    def keep(self, c: Json) -> Json:
        stack = contextlib.ExitStack()
        lease = stack.enter_context(self.store.lease(c["key"], lease_duration_ms=c["lease_ms"]))
        self.kept[c["key"]] = stack
        return self.took(c, lease)

    def await_loss(self, c: Json) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.leases[c["key"]].lost and time.monotonic() < deadline:
            time.sleep(0.01)
        self.let_go(c)

    def let_go(self, c: Json) -> None:
        self.kept.pop(c["key"]).close()

    def refresh(self, c: Json) -> None:
        self.store.refresh_lease(self.leases[c["key"]])

    def release(self, c: Json) -> None:
        self.store.release_lease(self.leases[c["key"]])

    def back_off(self, c: Json) -> None:
        self.store.back_off(self.leases[c["key"]], pause_ms=c["pause_ms"])

    def break_lease(self, c: Json) -> None:
        self.store.break_lease(c["key"])

    def end_request(self, c: Json) -> None:
        self.store.end_request(self.leases[c["key"]], failure=c["failure"])

    # --- Publishing ---------------------------------------------------------

    def publish(self, c: Json) -> Json | None:
        lease = self.leases[c["key"]]
        entry = entry_from({**c["entry"], "purge_seq": lease.purge_seq})
        return said_of(self.store.publish(lease, lease.record, entry, history=c.get("history", False)))

    def commit(self, c: Json) -> Json | None:
        """Publish by the call of the reference documents, which takes only the lease token."""
        said = c["entry"]
        return said_of(
            self.store.commit_generation(
                cache_key=c["key"],
                lease_token=self.leases[c["key"]].lease_token,
                html_pointer=said["s3_key"],
                generated_at_ms=said["generated_at"] * 1000,
                revalidate_seconds=said["revalidate_seconds"],
                etag=said["etag"],
            )
        )

    def rollback(self, c: Json) -> Json | None:
        return said_of(self.store.rollback(c["key"], c["to"], assertion=assertion(c)))

    def pin(self, c: Json) -> Json | None:
        return said_of(self.store.pin(c["key"], assertion=assertion(c)))

    def unpin(self, c: Json) -> Json | None:
        return said_of(self.store.unpin(c["key"]))

    # --- The race -----------------------------------------------------------

    def race(self, c: Json) -> Json:
        published: list[Json] = []
        told: Counter[str] = Counter()
        n = 0
        while time.time() < c["race"]["deadline"]:
            n += 1
            try:
                entry = self.race_once(c, f"{c['owner']}-{n}")
                if entry is None:
                    break
                published.append({"v": entry.v, "generation_id": entry.generation_id})
            except TheorydbError as error:
                told[error.code] += 1
                if isinstance(error, LeaseHeldError) and random.random() * 100 < c["race"]["breaks"]:
                    try:
                        self.break_lease(c)
                    except TheorydbError as second:
                        told[second.code] += 1
            time.sleep(random.random() * 0.06)
        return {"published": published, "told": told}

    def race_once(self, c: Json, generation_id: str) -> Entry | None:
        """Return the published entry, or None if the race is over."""
        with self.store.lease(c["key"], lease_duration_ms=c["lease_ms"]) as lease:
            if lease.record.entry is None or lease.record.entry.v >= c["race"]["until_version"]:
                return None
            if c["race"]["counted"]:
                self.raise_count(c["key"])
            generation = {"generation_id": generation_id, "s3_key": f"bodies/{generation_id}"}
            entry = entry_from({**c["entry"], **generation, "purge_seq": lease.purge_seq})
            return self.store.publish(lease, lease.record, entry)

    def raise_count(self, cache_key: str) -> None:
        """Increment the counter in the page's partition with an unconditional read-modify-write."""
        key = {"pk": {"S": hashed_partition(cache_key)}, "sk": {"S": "TALLY"}}
        found = self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)["Item"]
        count = int(found["count"]["N"]) + 1
        self.client.put_item(TableName=self.table, Item={**key, "count": {"N": str(count)}})


# --- Values -------------------------------------------------------------------


def claim_of(c: Json) -> Json:
    if "claim" not in c:
        return {}
    return {"idempotency_key": c["claim"]["key"], "inputs": c["claim"]["inputs"], "keep_seconds": 3600}


def assertion(c: Json) -> Assertion:
    return Assertion(asserted_at=int(time.time()), pinned_until=c.get("pinned_until"))


def entry_from(said: Json) -> Entry:
    members = dict(said)
    members["tags"] = tuple(said.get("tags", ()))
    members["headers"] = {name: tuple(values) for name, values in said.get("headers", {}).items()}
    return Entry(**members)


def marked(mark: Mark) -> Json:
    return {"target": named(mark, "kind", "tenant", "value"), **named(mark, "seq", "hard_seq", "at")}


def said_of(entry: Entry | None) -> Json | None:
    if entry is None:
        return None
    return {name: value for name, value in vars(entry).items() if value}


def named(thing: object, *names: str) -> Json:
    return {name: getattr(thing, name) for name in names}


DETAILS = {
    "owner": "owner",
    "expires_at": "expires_at",
    "failures": "failures",
    "until": "until",
    "result_s3_key": "s3_key",
    "generation_id": "generation_id",
    "pk": "pk",
    "sk": "sk",
    "attribute": "attribute",
}


def answer(do: Callable[[Json], Any], c: Json) -> Json:
    try:
        return {"id": c["id"], "ok": do(c)}
    except TheorydbError as error:
        details = {said: getattr(error, name) for name, said in DETAILS.items() if hasattr(error, name)}
        return {"id": c["id"], "error": error.code, "message": str(error), **details}
    except Exception as error:
        return {"id": c["id"], "error": type(error).__name__, "message": repr(error)}


def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        c = json.loads(line)
        print(json.dumps(answer(getattr(worker, c["do"]), c)), flush=True)


main()
