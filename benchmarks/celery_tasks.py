"""The peer: plain Celery tasks that do what a graph's steps do, without state, reducers, leases or history."""

import asyncio
import os
import threading
from functools import cache
from typing import Any

import redis
from celery import Celery, chord, group

BROKER = "BENCH_BROKER_URL"
LATE = "BENCH_ACKS_LATE"
QUEUE = "bench"
TEXT = "a word " * 20

app = Celery("bench", broker=os.environ.get(BROKER), backend=os.environ.get(BROKER))
app.conf.update(
    task_default_queue=QUEUE,
    task_acks_late=LATE in os.environ,
    worker_prefetch_multiplier=1 if LATE in os.environ else 4,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    # kombu's 10 fail the acknowledgements of a pool of 100 threads.
    broker_transport_options={"max_connections": 10_000},
)


@cache
def client() -> Any:
    """Return this process's client for what tasks keep and for the word that all is done."""
    return redis.Redis.from_url(os.environ[BROKER], socket_timeout=None)


def tell(run: str) -> None:
    """Wake whoever waits for the end."""
    client().lpush(f"done:{run}", 1)


@app.task(ignore_result=True)
def hop(run: str, step: int, steps: int) -> None:
    """Do nothing but the next enqueue."""
    if step + 1 < steps:
        hop.apply_async((run, step + 1, steps))
    else:
        tell(run)


@app.task(ignore_result=True)
def read_on(run: str, step: int, steps: int) -> None:
    """Read the whole history and add a message, as a step does that keeps its history in a Redis list."""
    client().lrange(f"history:{run}", 0, -1)
    client().rpush(f"history:{run}", TEXT)
    if step + 1 < steps:
        read_on.apply_async((run, step + 1, steps))
    else:
        tell(run)


@app.task(ignore_result=True)
def fan(run: str, width: int) -> None:
    """Begin as many branches, which count down in Redis."""
    client().set(f"left:{run}", width)
    with app.producer_or_acquire() as producer:
        for number in range(width):
            count_down.apply_async((run, number), producer=producer)


@app.task(ignore_result=True)
def count_down(run: str, number: int) -> None:
    """Keep a result, and begin the join if none is left."""
    pipe = client().pipeline(transaction=True)
    pipe.rpush(f"history:{run}", f"{TEXT}{number}")
    pipe.decr(f"left:{run}")
    if pipe.execute()[1] == 0:
        join.apply_async((None, run))


@app.task
def branch(number: int) -> str:
    """Return a result."""
    return f"{TEXT}{number}"


@app.task(ignore_result=True)
def join(_results: list[str] | None, run: str) -> None:
    """End the fan-out."""
    tell(run)


@app.task(ignore_result=True)
def fan_chord(run: str, width: int) -> None:
    """Begin as many branches as a chord."""
    chord(group(branch.s(number) for number in range(width)), join.s(run)).apply_async()


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the one loop of this process, on a thread of its own."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, daemon=True).start()
    return made


@app.task(ignore_result=True)
def wait_on(run: str, step: int, steps: int, wait_s: float) -> None:
    """Wait, as for a model, then begin the next step."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(wait_s), loop()).result()
    if step + 1 < steps:
        wait_on.apply_async((run, step + 1, steps, wait_s))
    else:
        tell(run)
