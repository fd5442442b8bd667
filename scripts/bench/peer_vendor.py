"""
The floor of streaming: the vendor's SDK alone, which reads the same stream and drops it.

It warms up with the first answer, and prints the seconds that the second one took, and
those of processor time. The arguments are the model's port, its orders, and whether the
SDK is to build its types: `typed`, or `json` as `ChatCompletionsProvider` has it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, cast

import openai


def main(port: str, orders: str, kind: str) -> None:
    """Read the answer twice."""
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    read = _read_typed if kind == "typed" else _read_json
    read(client, "model: chunks=50")
    started, cpu = time.perf_counter(), time.process_time()
    chunks = read(client, orders)
    print(time.perf_counter() - started, time.process_time() - cpu, chunks)


def _read_typed(client: openai.OpenAI, orders: str) -> int:
    chunks = 0
    stream = client.chat.completions.create(
        model="loopback",
        messages=[{"role": "user", "content": orders}],
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            chunks += 1
    return chunks


def _read_json(client: openai.OpenAI, orders: str) -> int:
    chunks = 0
    body = {
        "model": "loopback",
        "messages": [{"role": "user", "content": orders}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    stream = client.post(
        "/chat/completions",
        cast_to=object,
        body=body,
        stream=True,
        stream_cls=openai.Stream[object],
    )
    for chunk in cast("Iterator[dict[str, Any]]", stream):
        if chunk["choices"] and chunk["choices"][0]["delta"].get("content"):
            chunks += 1
    return chunks


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
