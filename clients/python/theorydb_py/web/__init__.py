"""A page cache for WSGI and ASGI applications: Flask, Django, FastAPI and others.

Pages are stored in the table and bucket that ``isr serve`` uses, and shared by all
processes: one of them renders an expired page, under a lease, while the others serve
the stale one.

    visitor ─► WsgiCache, AsgiCache ─► memory ─► table and bucket ─► the application
                     │ cookie, Authorization, POST, …                      ▲
                     └──────────────── unchanged ──────────────────────────┘

An outage of table or bucket raises nothing: stale pages are served, and others are
rendered without being stored. theorydb_py.web.django names the tags of Django's views,
and purges them when models are saved.
"""

from theorydb_py.web._asgi import AsgiCache
from theorydb_py.web._cache import PageCache
from theorydb_py.web._gateway import Gateway
from theorydb_py.web._wsgi import WsgiCache

__all__ = ["AsgiCache", "Gateway", "PageCache", "WsgiCache"]
