"""Makes messages as Celery and kombu would send them, for a store that is the broker too and puts them there itself."""

import threading
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

from celery import Celery, signals
from kombu.transport import redis
from kombu.utils.json import dumps, loads
from kombu.utils.uuid import uuid
from redis import connection as of_redis

from tenxgraph.store.base import Dispatch, QueueMessage
from tenxgraph_scheduler.broker import DISPATCHED_HEADER
from tenxgraph_scheduler.message import shown_kwargs, task_id

Send = Callable[[Any, Dispatch, dict[str, Any], str, Mapping[str, Any]], None]
"""Sends a message: producer, dispatch, arguments of the task, queue, further headers."""

Kin = Callable[[], tuple[str | None, str | None]]
"""Names the first task of the chain that the sender belongs to, and the sender."""

_parse_url: Callable[[str], dict[str, Any]] = of_redis.parse_url
_SIGNALS: Final = (signals.before_task_publish, signals.after_task_publish)


class _Record:
    """Stands where a channel has its client: it takes a message down."""

    def __init__(self, key_prefix: str) -> None:
        self._key_prefix = key_prefix
        self.taken: QueueMessage | None = None

    def ping(self) -> bool:
        """A channel asks this when it opens."""
        return True

    def lpush(self, key: str, payload: str) -> None:
        """Take a message down under the key that the client of a channel with a key prefix would use."""
        self.taken = QueueMessage(f"{self._key_prefix}{key}", payload)


class _RecordingChannel(redis.Channel):
    """A channel that connects to nothing."""

    record: _Record | None = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        del asynchronous
        if self.record is None:
            self.record = _Record(self.global_keyprefix)
        return self.record


class _RecordingTransport(redis.Transport):
    Channel = _RecordingChannel


class Outbox:
    """Makes the messages of one process.

    The first message to a queue is made by Celery and kombu; those that follow differ from it only in what names them.

    Args:
        app: Makes the messages.
        send: How messages are sent.
        kin: Of the sender.
    """

    def __init__(self, app: Celery, send: Send, kin: Kin) -> None:
        connection: Any = app.connection_for_write()
        connection.transport_cls = _RecordingTransport
        self._channel: Any = connection.default_channel
        self._producer: Any = app.amqp.Producer(self._channel, auto_declare=False)
        self._send = send
        self._kin = kin
        self._lock = threading.Lock()
        self._forms: dict[tuple[Any, ...], _Form] = {}

    def is_on(self, store_url: str) -> bool:
        """Whether the broker is the very database of the store, with the same user."""
        return _place(self._channel._connparams()) == _place(_parse_url(store_url))

    def message(self, item: Dispatch, kwargs: dict[str, Any], queue: str, dispatched_ms: int) -> QueueMessage:
        """Return a task's message, as it would be sent."""
        form = self._form(item, queue)
        root, parent = self._kin()
        name = task_id(item)
        named = [name, root or name, parent, shown_kwargs(item), dispatched_ms, name, uuid()]
        return QueueMessage(form.key, form.filled(self._channel, kwargs, named))

    def _form(self, item: Dispatch, queue: str) -> "_Form":
        same = (item.graph, item.node, queue, item.priority)
        form = self._forms.get(same)
        if form is None:
            form = self._forms[same] = _Form(self._sent(item, queue))
        return form

    def _sent(self, item: Dispatch, queue: str) -> QueueMessage:
        with self._lock:
            self._send(self._producer, item, {}, queue, {DISPATCHED_HEADER: 0})
            assert self._channel.record.taken is not None
            taken: QueueMessage = self._channel.record.taken
            return taken


class _Form:
    """A message with gaps: the body first, then what names it.

    Args:
        sent: A message as kombu sends it.
    """

    def __init__(self, sent: QueueMessage) -> None:
        self.key = sent.key
        message = loads(sent.payload)
        self._args, _, self._embedded = loads(b64decode(message["body"]))
        headers, properties = message["headers"], message["properties"]
        gaps = [
            *((message, "body"), (headers, "id"), (headers, "root_id"), (headers, "parent_id")),
            *((headers, "kwargsrepr"), (headers, DISPATCHED_HEADER)),
            *((properties, "correlation_id"), (properties, "delivery_tag")),
        ]
        marks = [uuid() for _ in gaps]
        for (record, name), mark in zip(gaps, marks, strict=True):
            record[name] = mark
        rest = dumps(message)
        places = sorted((rest.index(dumps(mark)), position) for position, mark in enumerate(marks))
        self._order = [position for _, position in places]
        self._parts: list[str] = []
        for position in self._order:
            part, _, rest = rest.partition(dumps(marks[position]))
            self._parts.append(part)
        self._end = rest

    def filled(self, channel: Any, kwargs: dict[str, Any], named: list[Any]) -> str:
        """Return the text of a message."""
        body, _ = channel.encode_body(dumps([self._args, kwargs, self._embedded]), channel.body_encoding)
        values = [body, *named]
        filled = (part + dumps(values[position]) for part, position in zip(self._parts, self._order, strict=True))
        return "".join(filled) + self._end


def _place(params: Mapping[str, Any]) -> tuple[Any, ...]:
    is_tls = issubclass(params.get("connection_class") or object, of_redis.SSLConnection)
    path = params.get("path")
    where = path if path is not None else (params.get("host") or "localhost", int(params.get("port") or 6379))
    return where, is_tls, int(params.get("db") or 0), params.get("username") or None, params.get("password") or None


def can_prepare(app: Celery) -> bool:
    """Whether messages of this app can be made ahead: on kombu's own Redis transport, unseen by anybody else."""
    connection: Any = app.connection_for_write()
    return (
        connection.get_transport_cls() is redis.Transport
        and len(connection.alt) < 2
        and connection.credential_provider is None
        and not app.conf.task_compression
        and not app.conf.task_send_sent_event
    )


def is_watched() -> bool:
    """Whether somebody wants to see, and perhaps change, each message before it is sent."""
    return any(signal.receivers for signal in _SIGNALS)
