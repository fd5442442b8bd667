"""
The blocks that the tests do not run, each with the reason.

The key is the document and the first line of the block. An entry that fits no block
fails the tests, so that this list stays true.
"""

from __future__ import annotations

NOT_RUN = {
    ("README.md", "make demo   # a whole exchange with the agent, on a scratch project"): (
        "the first step and the last step of .ci/run; here they would run these tests again"
    ),
    (
        "docs/editors.md",
        'toad acp "/path/to/term2/.venv/bin/term2 acp" /path/to/project --title term2',
    ): "Toad is no part of this; it was tried by hand, as docs/transcripts/toad.txt shows",
    ("docs/providers.md", "ollama pull qwen3-coder"): (
        "fetches a model of many gigabytes and serves until it is stopped"
    ),
    (
        "docs/providers.md",
        "llama-server --model model.gguf --ctx-size 65536 --jinja --port 8080",
    ): "needs a model and serves until it is stopped",
    ("docs/providers.md", "vllm serve Qwen/Qwen3-Coder-30B-A3B-Instruct \\"): (
        "needs a model and a graphics card, and serves until it is stopped"
    ),
}
