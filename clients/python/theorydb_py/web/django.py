"""Cache tags for Django: views name them, and models that change purge them.

    from theorydb_py.web.django import cache_tags, purge_on_change

    @cache_control(public=True, s_maxage=600)
    @cache_tags("news", lambda request, pk: f"shop.story:{pk}")
    def story(request, pk): ...

    purge_on_change(cache.purge, Story)  # in AppConfig.ready

It works behind ``isr serve`` and any CDN that reads Cache-Tag, with or without a
PageCache. Needs Django 4.2 or newer.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, TypeVar

from django.db import connections, transaction
from django.db.models.signals import post_delete, post_save

from theorydb_py import InvalidInputError

View = TypeVar("View", bound=Callable[..., Any])
Tags = str | Callable[..., "str | Iterable[str]"]

_MAX_TARGETS = 90
"""How many tags one purge has at most: the limit of isr serve, which is below the store's."""
_MAX_TAG = 1024

_logger = logging.getLogger("theorydb_py.web")


def add_cache_tags(response: MutableMapping[str, str], *tags: str) -> None:
    """Add tags to the Cache-Tag header of a response, each once.

    A tag has 1 to 1,024 bytes without commas and control characters; a page at most 128
    of 16 KiB in all: with more it is not stored.

    Raises:
        InvalidInputError: a tag is invalid.
    """
    present = [tag for tag in response.get("Cache-Tag", "").split(",") if tag]
    # Headers are bytes: Django would refuse or rewrite letters beyond ISO 8859-1.
    added = [_checked(tag).encode().decode("latin-1") for tag in tags]
    if present or added:
        response["Cache-Tag"] = ",".join(dict.fromkeys([*present, *added]))


def cache_tags(*tags: Tags) -> Callable[[View], View]:
    """Decorate a view, sync or async: its responses get these tags, see add_cache_tags.

    A tag is a text, or a function that is called with the arguments of the view and
    returns a text or several. For a class, use Django's method_decorator on dispatch.
    A call of the view raises InvalidInputError for an invalid tag.
    """

    def decorate(view: View) -> View:
        def tagged(response: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
            for tag in tags:
                found = tag(*arguments, **named) if callable(tag) else tag
                add_cache_tags(response, *([found] if isinstance(found, str) else found))
            return response

        @functools.wraps(view)
        async def asynchronous(*arguments: Any, **named: Any) -> Any:
            return tagged(await view(*arguments, **named), arguments, named)

        @functools.wraps(view)
        def synchronous(*arguments: Any, **named: Any) -> Any:
            return tagged(view(*arguments, **named), arguments, named)

        wrapped: Any = asynchronous if inspect.iscoroutinefunction(view) else synchronous
        return wrapped  # type: ignore[no-any-return]

    return decorate


def model_tags(instance: Any) -> list[str]:
    """Return the tags of a model's instance: ``app.model``, of all of them, and ``app.model:pk``, of this one."""
    label = instance._meta.label_lower
    return [label, f"{label}:{instance.pk}"]


def purge_on_change(
    purge: Callable[..., object],
    *models: type,
    tags: Callable[[Any], Iterable[str]] = model_tags,
    hard: bool = False,
) -> None:
    """Purge the tags of an instance when it is saved or deleted, once the transaction is committed.

    ``purge`` is the method of a PageCache or a Gateway. Changes of one transaction share
    purges of at most 90 tags. A purge that fails is logged, and the request goes on: pages are then
    outdated until they expire. What sends no signals (``QuerySet.update``, ``bulk_create``, relations
    of many to many) purges nothing: call ``purge`` there.

    Raises:
        InvalidInputError: there is no model.
    """
    if not models:
        raise InvalidInputError("purge_on_change has no models: expected at least one")

    def changed(instance: Any, using: str, **_: object) -> None:
        batch = _Batch.registered(using, purge, hard=hard)
        if batch is None:
            batch = _Batch(purge, hard=hard)
            batch.add(tags(instance))
            transaction.on_commit(batch, using=using)
        else:
            batch.add(tags(instance))

    for model in models:
        # Strong references: changed belongs to this call alone.
        post_save.connect(changed, sender=model, weak=False)
        post_delete.connect(changed, sender=model, weak=False)


class _Batch:
    """The tags of one transaction, or of one of its savepoints, that are purged together."""

    def __init__(self, purge: Callable[..., object], *, hard: bool) -> None:
        self._how = (purge, hard)
        self._tags: dict[str, None] = {}

    @classmethod
    def registered(cls, using: str, purge: Callable[..., object], *, hard: bool) -> _Batch | None:
        """Return the batch that is the last commit hook, if it is of the same savepoints.

        A rollback drops the hooks of its savepoints, and with them their batches.
        """
        connection = connections[using]
        hooks = connection.run_on_commit
        last = hooks[-1][1] if hooks and hooks[-1][0] == set(connection.savepoint_ids) else None
        return last if isinstance(last, cls) and last._how == (purge, hard) else None

    def add(self, tags: Iterable[str]) -> None:
        """Add tags, each once."""
        self._tags.update(dict.fromkeys(map(_checked, tags)))

    def __call__(self) -> None:
        purge, hard = self._how
        tags = list(self._tags)
        for first in range(0, len(tags), _MAX_TARGETS):
            some = tags[first : first + _MAX_TARGETS]
            try:
                purge(tags=some, hard=hard)
            except Exception as error:
                _logger.error("the purge of %d tags (%s, ...) failed: %s", len(some), some[0], error)  # noqa: TRY400


def _checked(tag: object) -> str:
    if not isinstance(tag, str):
        raise InvalidInputError(f"a cache tag is {tag!r:.80}: expected a str")
    size = len(tag.encode("utf-8", "surrogatepass"))
    plain = all(character >= " " and character not in ",\x7f" for character in tag)
    if not 1 <= size <= _MAX_TAG or not plain or tag != tag.strip():
        raise InvalidInputError(
            f"the cache tag {tag[:60]!r} has {size} bytes: expected 1 to {_MAX_TAG}, "
            "without commas, control characters and outer spaces"
        )
    return tag
