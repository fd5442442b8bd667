"""
The floor of streaming: the vendor's SDK alone, which reads the same stream and drops it.

It warms up with the first answer, and prints the seconds that the second one took, and
those of processor time. The arguments are the model's port and its orders.
"""

from __future__ import annotations

import sys
import time

import openai


def main(port: str, orders: str) -> None:
    """Read the answer twice."""
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    _read(client, "model: chunks=50")
    started, cpu = time.perf_counter(), time.process_time()
    chunks = _read(client, orders)
    print(time.perf_counter() - started, time.process_time() - cpu, chunks)


def _read(client: openai.OpenAI, orders: str) -> int:
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


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
