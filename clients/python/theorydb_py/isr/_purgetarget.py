"""The targets of purges: which pages each of them selects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from theorydb_py.errors import InvalidInputError, InvalidKeyError
from theorydb_py.isr._canonicalkey import canonical_key
from theorydb_py.isr._entry import ReloadTarget
from theorydb_py.isr._keys import check_cache_key, check_partition, check_tenant
from theorydb_py.isr._names import PK_LOG

MAX_PURGE_TARGETS = 98
"""How many targets a purge has at most: as many as fit into a transaction beside SEQ and LOG#."""
_MAX_BYTES = 256 << 10
"""The size of the tenants and values of a purge together: they share one row of the log."""
_MAX_TAG = 1024
_DELETE = "\x7f"

PurgeKind = Literal["key", "tag", "prefix", "tenant", "site"]
KEY, TAG, PREFIX, TENANT, SITE = "key", "tag", "prefix", "tenant", "site"


@dataclass(frozen=True, kw_only=True)
class PurgeTarget:
    """Selects the pages of a purge by ``kind``.

    - key: one page, by its cache key, ``value``
    - tag: the pages with the tag ``value``
    - prefix: the pages whose cache keys begin with ``value``; host_target returns the target of a host
    - tenant: all pages of a tenant
    - site: all pages of all tenants
    """

    kind: PurgeKind
    value: str = ""
    """The cache key, the tag or the prefix. The other kinds have none."""
    tenant: str | None = None
    """The tenant of the pages; None: the store's. A site has none."""
    pk: str | None = None
    """The partition key of the page, for the kind key only; None: the store's mapping of the cache key."""


@dataclass(frozen=True, kw_only=True)
class ResolvedTarget:
    """A valid target, with its defaults. Members without a value are empty."""

    kind: str
    tenant: str
    value: str
    pk: str


def host_target(host: str) -> PurgeTarget:
    """Return the target of all pages of a host (``example.com:8080``), as ``isr serve`` names them: ``host/``.

    Raises:
        InvalidInputError, InvalidKeyError: it is no host.
    """
    if not isinstance(host, str) or any(character in host for character in "/?#"):
        raise InvalidInputError(f"the host is {host!r}: expected a name with no path")
    return PurgeTarget(kind="prefix", value=canonical_key(host + "/"))


def resolve(
    targets: Collection[PurgeTarget], tenant: str, partition: Callable[[str], str]
) -> tuple[ResolvedTarget, ...]:
    """Validate the targets of a purge, and apply the defaults of a store with this tenant and partition keys.

    Raises InvalidInputError and InvalidKeyError.
    """
    if not isinstance(targets, (list, tuple, set, frozenset)) or not 1 <= len(targets) <= MAX_PURGE_TARGETS:
        raise InvalidInputError(
            f"the targets of a purge: expected a list of 1 to {MAX_PURGE_TARGETS}, found {targets!r:.80}; "
            "split a longer list"
        )
    resolved = tuple(_resolve(target, tenant, partition) for target in targets)
    size = sum(len((target.tenant + target.value).encode()) for target in resolved)
    if size > _MAX_BYTES:
        raise InvalidInputError(
            f"the targets of a purge have {size} bytes together: expected at most {_MAX_BYTES}; split the list"
        )
    return resolved


def _resolve(target: PurgeTarget, own: str, partition: Callable[[str], str]) -> ResolvedTarget:
    if not isinstance(target, PurgeTarget):
        raise InvalidInputError(f"a target of a purge is {target!r:.80}: expected a PurgeTarget")
    default = "" if target.kind == SITE else own
    tenant = default if target.tenant is None else target.tenant
    if tenant != "":
        check_tenant(tenant)
    _check_value(target.kind, target.value, tenant)
    pk = target.pk or ""
    if target.kind != KEY:
        if pk != "":
            raise InvalidInputError(f"a purge target of kind {target.kind} has the pk {pk!r:.80}: expected none")
        return ResolvedTarget(kind=target.kind, tenant=tenant, value=target.value, pk="")
    if pk == "" and tenant != own:
        raise InvalidInputError(f"a purge target of the tenant {tenant!r}: pass the pk of its page")
    pk = check_partition(pk or partition(target.value))
    if pk == PK_LOG:
        raise InvalidKeyError(f"the pk of a purge target is {pk}, the partition of the purge log: expected a page's")
    return ResolvedTarget(kind=KEY, tenant=tenant, value=target.value, pk=pk)


def _check_value(kind: str, value: str, tenant: str) -> None:
    match kind:
        case "key" | "prefix":
            check_cache_key(value)
        case "tag":
            _check_tag(value)
        case "tenant":
            if tenant == "" or value != "":
                raise InvalidInputError("a purge of a tenant needs the tenant, and has no value")
        case "site":
            if tenant != "" or value != "":
                raise InvalidInputError("a purge of the site, which is all pages, has no tenant and no value")
        case _:
            raise InvalidInputError(
                f"the kind of a purge target is {kind!r:.80}: expected key, tag, prefix, tenant or site"
            )


def _check_tag(tag: object) -> None:
    if not isinstance(tag, str):
        raise InvalidInputError(f"a tag is {tag!r:.80}: expected a str")
    try:
        size = len(tag.encode())
    except UnicodeEncodeError:
        raise InvalidInputError(f"the tag {tag[:60]!r} is not Unicode text: it has a lone surrogate") from None
    if not 1 <= size <= _MAX_TAG:
        raise InvalidInputError(f"the tag {tag[:60]!r} has {size} bytes: expected 1 to {_MAX_TAG}")
    if any(character < " " or character == _DELETE for character in tag):
        raise InvalidInputError(f"the tag {tag[:60]!r} has a control character: expected text")


def covers(kind: str, tenant: str, value: str, page: ReloadTarget, tags: Collection[str]) -> bool:
    """Return whether a target selects a page with these tags.

    An unknown kind selects all pages of its tenant: a purge that cannot be evaluated
    must not be undone.
    """
    if kind == SITE and tenant == "":
        return True
    if tenant != page.tenant:
        return False
    match kind:
        case "key":
            return page.key == value
        case "tag":
            return value in tags
        case "prefix":
            return page.key.startswith(value)
    return True
