"""An OpenAI-compatible server on loopback that answers from a script, whole or as a stream, well or badly."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "completion_tokens_details": {"reasoning_tokens": 5},
    "prompt_tokens_details": {"cached_tokens": 4},
}


@dataclass(frozen=True)
class Answer:
    """What becomes of one request.

    Attributes:
        body: A chat completion, an error's body, or text that is sent as it is.
        headers: Sent along.
        cut_after: Close the connection after so many bytes of the body, or events of a stream; None never.
        delay_s: Before the answer, and between two events of a stream.
    """

    body: dict[str, Any] | str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut_after: int | None = None
    delay_s: float = 0.0


@dataclass
class ScriptedServer:
    """``answers``: in order; the last is repeated."""

    answers: Sequence[Answer]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    asked_at_s: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_answer(self, body: dict[str, Any]) -> Answer:
        with self.lock:
            self.asked.append(body)
            self.asked_at_s.append(time.monotonic())
            return self.answers[min(len(self.asked), len(self.answers)) - 1]


def completion(
    content: str | None = None, calls: Sequence[tuple[str, str, str]] = (), reasoning: str | None = None
) -> dict[str, Any]:
    """Return the body of a chat completion; a call is (id, name, arguments as text)."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}


def events_of(body: dict[str, Any]) -> Iterator[bytes]:
    """Return a completion as the events of a stream: words, halves of arguments, the end, the usage."""
    choice = body["choices"][0]
    for delta in _deltas(choice["message"]):
        yield _event(body, [{"index": 0, "delta": delta, "finish_reason": None}])
    yield _event(body, [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
    yield _event(body, [], usage=body["usage"])
    yield b"data: [DONE]\n\n"


def _event(body: dict[str, Any], choices: list[Any], **more: Any) -> bytes:
    chunk = {**body, "object": "chat.completion.chunk", "choices": choices, "usage": None, **more}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for key in ("reasoning_content", "content"):
        words = (message.get(key) or "").split(" ")
        yield from ({key: word if last else f"{word} "} for word, last in _with_last(words) if word)
    for index, call in enumerate(message.get("tool_calls", ())):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        yield {"tool_calls": [{**call, "index": index, "function": {"name": name, "arguments": ""}}]}
        for half in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": half}}]}


def _with_last(words: list[str]) -> Iterator[tuple[str, bool]]:
    return ((word, position == len(words) - 1) for position, word in enumerate(words))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ScriptedServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.script.next_answer({**body, "path": self.path})
        time.sleep(answer.delay_s)
        if body.get("stream") and answer.status == 200 and isinstance(answer.body, dict):
            self._stream(answer, answer.body)
        else:
            self._send(answer)

    def _send(self, answer: Answer) -> None:
        data = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **answer.headers}
        self._begin(answer.status, headers)
        self.wfile.write(data[: answer.cut_after])
        if answer.cut_after is not None:
            self._cut()

    def _stream(self, answer: Answer, body: dict[str, Any]) -> None:
        self._begin(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **answer.headers})
        for number, event in enumerate(events_of(body)):
            if number == answer.cut_after:
                self._cut()
                return
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            time.sleep(answer.delay_s)
        self.wfile.write(b"0\r\n\r\n")

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")  # no client is closed in the end: none may keep a connection
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _cut(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go when they like."""


@contextmanager
def openai_server(*answers: dict[str, Any] | tuple[int, dict[str, Any]] | Answer) -> Iterator[ScriptedServer]:
    """Serve on a free port until the block ends."""
    script = ScriptedServer([_answer(given) for given in answers])
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"script": script}))
    script.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _answer(given: dict[str, Any] | tuple[int, dict[str, Any]] | Answer) -> Answer:
    if isinstance(given, Answer):
        return given
    return Answer(given[1], given[0]) if isinstance(given, tuple) else Answer(given)
