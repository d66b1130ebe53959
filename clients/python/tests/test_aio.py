"""Asynchronous tables and leases, on real tables."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from theorydb_py import ModelDefinition, Table, theorydb_field, theorydb_model
from theorydb_py.aio import AsyncLeases, AsyncTable
from theorydb_py.errors import InvalidInputError, ItemNotFoundError, LeaseHeldError, LeaseLostError
from theorydb_py.leases import LeaseManager

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@theorydb_model
class Song:
    artist: str = theorydb_field(roles=["pk"], name="pk")
    title: str = theorydb_field(roles=["sk"], name="sk")
    year: int = 0


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("theorydb_py.aio")]


def test_tables(client: DynamoDBClient, table_name: str) -> None:
    async def program() -> None:
        async with AsyncTable(
            Table(ModelDefinition.from_dataclass(Song, table_name=table_name), client=client)
        ) as songs:
            await asyncio.gather(*(songs.create(Song("Nina", f"song {i:02}", 1960 + i)) for i in range(20)))
            assert (await songs.get("Nina", "song 03")).year == 1963
            assert await songs.get_or_none("Nina", "none") is None
            with pytest.raises(ItemNotFoundError):
                await songs.update("Nina", "none", {"year": 1})
            await songs.update("Nina", "song 03", {"year": 1})
            await songs.upsert("Nina", "zugabe", {"year": 2})
            found = [song.year async for song in songs.query("Nina")]
            assert (len(found), found[3], found[-1]) == (21, 1, 2)
            page = await songs.query("Nina", limit=5).page()
            assert len(page.items) == 5
            assert len(await songs.scan().all()) == 21
            assert len([p async for p in songs.query("Nina", limit=10).pages()]) == 3
            some = await songs.query("Nina").select("year").all()
            assert some[0] == {"year": 1960}
            await songs.batch_write(deletes=[("Nina", "song 00")])
            assert await songs.batch_get([("Nina", "song 00"), ("Nina", "song 01")]) == [
                None,
                Song("Nina", "song 01", 1961),
            ]
            await songs.delete("Nina", "song 01")

    asyncio.run(program())
    assert threads() == []
    with pytest.raises(InvalidInputError, match="threads: expected an int of at least 1"):
        AsyncLeases(LeaseManager(client, table_name=table_name), threads=0)


@pytest.fixture
def manager(client: DynamoDBClient, table_name: str) -> LeaseManager:
    return LeaseManager(client, table_name=table_name)


def lock_of(client: DynamoDBClient, table_name: str, name: str) -> bool:
    key = {"pk": {"S": f"JOB#{name}"}, "sk": {"S": "LOCK"}}
    return "Item" in client.get_item(TableName=table_name, Key=key, ConsistentRead=True)


def test_lease_excludes_and_is_released(client: DynamoDBClient, table_name: str, manager: LeaseManager) -> None:
    async def program() -> None:
        async with AsyncLeases(manager) as leases:
            async with leases.lease("job", lease_seconds=12) as lease:
                with pytest.raises(LeaseHeldError):
                    async with leases.lease("job"):
                        pass
                first = lease.expires_at
                while lease.expires_at == first:  # refreshed
                    await asyncio.sleep(0.05)
            assert not lock_of(client, table_name, "job")
            with pytest.raises(ZeroDivisionError):
                async with leases.lease("job"):
                    raise ZeroDivisionError
            assert not lock_of(client, table_name, "job")

    asyncio.run(asyncio.wait_for(program(), 600))
    assert threads() == []


def test_block_ends_with_a_refresh(manager: LeaseManager, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        async with AsyncLeases(manager) as leases:
            asked, answered = asyncio.Event(), asyncio.get_running_loop().create_future()

            async def run(*_: object) -> None:
                asked.set()
                await answered

            async with leases.lease("job", lease_seconds=12):
                with monkeypatch.context() as patched:
                    patched.setattr(leases._threads, "run", run)
                    await asked.wait()
                answered.set_result(None)
                await asyncio.sleep(0)  # the refresh has ended, and its task has not noticed

    asyncio.run(asyncio.wait_for(program(), 600))
    assert threads() == []


def test_loss_cancels_the_task(client: DynamoDBClient, table_name: str, manager: LeaseManager) -> None:
    ended: list[str] = []

    async def job(leases: AsyncLeases) -> None:
        async with leases.lease("job", lease_seconds=1):
            key = {"pk": {"S": "JOB#job"}, "sk": {"S": "LOCK"}}
            await asyncio.to_thread(client.delete_item, TableName=table_name, Key=key)
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

    async def program() -> None:
        async with AsyncLeases(manager) as leases:
            with pytest.raises(LeaseLostError, match="JOB#job was lost before the block ended"):
                await job(leases)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            await asyncio.sleep(0)  # the task goes on

    asyncio.run(asyncio.wait_for(program(), 600))
    assert ended == ["cancelled"]


def test_cancellation_by_others_and_close_give_leases_back(
    client: DynamoDBClient, table_name: str, manager: LeaseManager
) -> None:
    async def program() -> None:
        leases = AsyncLeases(manager)

        @leases.leased("decorated")
        async def job(held: asyncio.Event) -> None:
            held.set()
            await asyncio.sleep(600)

        held = asyncio.Event()
        task = asyncio.create_task(job(held))
        await held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not lock_of(client, table_name, "decorated")
        held = asyncio.Event()
        task = asyncio.create_task(job(held))
        await held.wait()
        assert lock_of(client, table_name, "decorated")
        await leases.close()
        assert task.cancelled()
        assert not lock_of(client, table_name, "decorated")

    asyncio.run(asyncio.wait_for(program(), 600))
    assert threads() == []
