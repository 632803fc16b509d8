"""How is a server doing, in machine-readable form? Prometheus text, and a line of JSON for each request.

Neither contains names of projects, people or paths, or content of memories.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[tuple[str, float]] = Counter()
        self._sums: Counter[str] = Counter()

    def count(self, kind: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[kind, status] += 1
            self._sums[kind] += seconds  # type: ignore[assignment]
            for bound in SECONDS:
                if seconds <= bound:
                    self._seconds[kind, bound] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        lines = ["# TYPE skm_requests_total counter"]
        with self._lock:
            totals: Counter[str] = Counter()
            for (kind, status), count in sorted(self._requests.items()):
                lines.append(f'skm_requests_total{{kind="{kind}",status="{status}"}} {count}')
                totals[kind] += count
            lines.append("# TYPE skm_request_seconds histogram")
            for kind, total in sorted(totals.items()):
                lines += [
                    f'skm_request_seconds_bucket{{kind="{kind}",le="{bound}"}} {self._seconds[kind, bound]}'
                    for bound in SECONDS
                ]
                lines.append(f'skm_request_seconds_bucket{{kind="{kind}",le="+Inf"}} {total}')
                lines.append(f'skm_request_seconds_sum{{kind="{kind}"}} {self._sums[kind]:.6f}')
                lines.append(f'skm_request_seconds_count{{kind="{kind}"}} {total}')
        for name, value in gauges.items():
            lines += [f"# TYPE skm_{name} gauge", f"skm_{name} {value:g}"]
        return "\n".join(lines) + "\n"


class Measured:
    """Middleware that counts and logs every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, kind_of: Callable[[str], str]) -> None:
        self._app = app
        self._metrics = metrics
        self._kind_of = kind_of
        self._log = logging.getLogger("spec_kit_memory.requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            seconds, kind = time.perf_counter() - started, self._kind_of(scope["path"])
            self._metrics.count(kind, status, seconds)
            fields = {"kind": kind, "method": scope["method"], "status": status, "ms": round(seconds * 1000, 1)}
            self._log.info("request", extra={"request_fields": fields})


class JsonLines(logging.Formatter):
    LONGEST = 4_000

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[: self.LONGEST],
            **getattr(record, "request_fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            # Only the exception's type and location: its message may contain text of a memory.
            last = record.exc_info[2]
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else ""
            line |= {"error": record.exc_info[0].__name__, "where": where}
        return json.dumps(line, ensure_ascii=True)
