"""Serves a site: ``python -m tests.web.serve SITE PORT``, with gunicorn (WSGI) or uvicorn (ASGI)."""

from __future__ import annotations

import sys
from typing import Any

from tests.web.apps import SITES


def main(site: str, port: str) -> None:
    """Serve until killed."""
    if site in ("flask", "django-wsgi"):
        from gunicorn.app.base import BaseApplication

        class Server(BaseApplication):  # type: ignore[misc]
            def load_config(self) -> None:
                settings = {"bind": f"127.0.0.1:{port}", "workers": 1, "threads": 8, "loglevel": "warning"}
                for name, value in {**settings, "control_socket_disable": True}.items():
                    if name in self.cfg.settings:
                        self.cfg.set(name, value)

            def load(self) -> Any:
                return SITES[site]()

        Server().run()
    else:
        import uvicorn

        uvicorn.run(SITES[site](), host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
