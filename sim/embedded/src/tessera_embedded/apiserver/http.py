"""The API server's network side: requests to calls, watches to streams, faults in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from tessera_embedded.apiserver.admission.webhooks import Webhooks
from tessera_embedded.apiserver.aggregation import Aggregator
from tessera_embedded.apiserver.errors import ApiError, JsonObject, NotAcceptable, RequestTooLarge
from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Faults, Hang, refused
from tessera_embedded.apiserver.http_types import HttpCall, Response, refusal
from tessera_embedded.apiserver.routes import is_watch
from tessera_embedded.apiserver.settings import ApiServerSettings
from tessera_embedded.apiserver.store import Store, with_warnings
from tessera_embedded.apiserver.watches import KindWatch


class Frontend:
    """Answers HTTP requests from a store."""

    def __init__(
        self, store: Store, webhooks: Webhooks, aggregator: Aggregator, faults: Faults,
        settings: ApiServerSettings,
    ) -> None:  # fmt: skip
        self._store, self._webhooks, self._faults = store, webhooks, faults
        self._aggregator = aggregator
        self._settings = settings
        self._watches: dict[KindWatch, web.Request] = {}

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=self._settings.body_bytes)
        app.router.add_route("*", "/{path:.*}", self._serve)
        return app

    def end_watches(self) -> None:
        """End every watch in good order, as a server that stops does."""
        for watch in tuple(self._watches):
            watch.close()

    def cut_watches(self) -> None:
        """Cut the connection of every watch, as a server that dies does."""
        for request in tuple(self._watches.values()):
            _cut(request)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        effect = self._faults.take(request.method, request.path)
        match effect:
            case Answer():
                return _sent(refused(effect))
            case Hang():
                await asyncio.Event().wait()
            case Delay():
                await asyncio.sleep(effect.seconds)
            case Cut(after=False):
                _cut(request)
            case Cut() | None:
                pass
        try:
            return await self._answer(request, effect)
        except ApiError as e:
            return _sent(refusal(e))

    async def _answer(self, request: web.Request, effect: Effect | None) -> web.StreamResponse:
        if isinstance(effect, Cut) and not effect.after:
            return web.Response()
        call = await self._call(request)
        if (elsewhere := self._aggregator.found(call.path)) is not None:
            accept = request.headers.get("Accept", "")
            return _sent(await self._aggregator.pass_on(call, accept, elsewhere))
        if is_watch(call):
            watch = self._store.watch(call.path, call.query, user=call.user)
            return await self._stream(request, watch, call.query)
        response = self._aggregator.about(call.path) or await self._driven(call)
        if call.path == "/apis" and response.code == 200:
            response = self._aggregator.with_groups(response)
        if isinstance(effect, Cut):
            _cut(request)
        return _sent(response)

    async def _call(self, request: web.Request) -> HttpCall:
        user = self._store.access.authenticate(request.headers.get("Authorization", ""))
        accept = request.headers.get("Accept", "")
        if accept and not any(kind in accept for kind in ("json", "*/*", "text/plain")):
            raise NotAcceptable(
                "only the following media types are accepted: application/json; "
                f"asked for {accept!r}"
            )
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as e:
            most = self._settings.body_bytes
            raise RequestTooLarge(f"Request entity too large: limit is {most}") from e
        return HttpCall(
            request.method,
            request.path,
            dict(request.query),
            body,
            request.headers.get("Content-Type", ""),
            user,
            table="as=Table;v=v1" in accept,
        )

    async def _driven(self, call: HttpCall) -> Response:
        warnings: list[str] = []
        try:
            response = await self._steps(call, warnings)
        except ApiError as e:
            response = refusal(e)
        return with_warnings(response, warnings)

    async def _steps(self, call: HttpCall, warnings: list[str]) -> Response:
        steps = self._store.begin(call, warnings)
        given: JsonObject | None = None
        while True:
            try:
                asked = steps.send(given)
            except StopIteration as e:
                response: Response = e.value
                return response
            asked.obj = await self._webhooks.review(asked, warnings)
            given = self._store.decided(asked, warnings)

    async def _stream(
        self, request: web.Request, watch: KindWatch, query: Mapping[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        self._watches[watch] = request
        try:
            await response.prepare(request)
            try:
                async with asyncio.timeout(self._watch_life_s(query)):
                    await self._pump(watch, response)
            except TimeoutError:
                await self._last_words(watch, response)
            await response.write_eof()
        except ConnectionResetError:
            pass
        finally:
            del self._watches[watch]
            watch.close()
        return response

    def _watch_life_s(self, query: Mapping[str, str]) -> float:
        asked = query.get("timeoutSeconds", "")
        return float(asked) if asked.isdigit() and int(asked) else self._settings.watch_s

    async def _pump(self, watch: KindWatch, response: web.StreamResponse) -> None:
        loop, every_s = asyncio.get_running_loop(), self._settings.bookmark_s
        changed = asyncio.Event()
        watch.on_change = changed.set
        due = loop.time() + every_s  # whatever else happens: much of it the watch does not want
        while True:
            changed.clear()
            if frames := watch.pull():
                await response.write(b"".join(frames))
            if watch.closed:
                return
            try:
                async with asyncio.timeout_at(due):
                    await changed.wait()
            except TimeoutError:
                await self._last_words(watch, response)
                due = loop.time() + every_s

    async def _last_words(self, watch: KindWatch, response: web.StreamResponse) -> None:
        frames = watch.pull()
        if watch.wants_bookmarks and not watch.closed:  # one that fell behind has not seen it all
            frames.append(watch.bookmark())
        if frames:
            await response.write(b"".join(frames))


def _sent(response: Response) -> web.Response:
    sent = web.Response(
        status=response.code, body=response.body, content_type=response.content_type
    )
    for name, value in response.headers:
        sent.headers.add(name, value)
    return sent


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
