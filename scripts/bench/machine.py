"""What is measured and where: the programs, a scratch home, the model service."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.agent import Agent

PROJECT = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).resolve().parent
_PEERS = PROJECT / ".venv-interop" / "bin"
_TYPESCRIPT_AGENT = (
    PROJECT / "tests/interop/node_modules/@agentclientprotocol/sdk/dist/examples/agent.js"
)
_CONFIG = """\
provider = "loopback"
model = "loopback"

[providers.loopback]
kind = "openai-compatible"
base_url = "http://127.0.0.1:{port}/v1"
models = [{{ id = "loopback", context_window = 100000000 }}]
"""


class Machine:
    """
    A scratch home with a project, and a model service; use it as a context manager.

    Everything in it goes away at the end. `model` is the module of the service,
    `settings` what stands before the rest of the configuration.
    """

    def __init__(self, model: str = "bench.model", settings: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="term2-bench-")
        root = Path(self._folder.name).resolve()
        self.home, self.project = root / "home", root / "project"
        for folder in (self.home / "config" / "term2", self.project):
            folder.mkdir(parents=True)
        (self.project / "README.md").write_text("# Bench\n\nA line.\n", encoding="utf-8")
        self._model = subprocess.Popen(
            [sys.executable, "-m", model],
            env={**os.environ, "PYTHONPATH": str(_HERE.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._model.stdout is not None  # noqa: S101 (for the type checker)
        self.model_port = int(self._model.stdout.readline())
        settings += _CONFIG.format(port=self.model_port)
        (self.home / "config" / "term2" / "config.toml").write_text(settings, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._model.communicate()
        self._folder.cleanup()

    def environment(self, state: str = "", *, configured: bool = True) -> dict[str, str]:
        """
        An environment for an agent.

        Args:
            state: names the folder of the state; the same name has the same state.
            configured: whether there is a configuration, which names the loopback model.
        """
        config = self.home / ("config" if configured else "no-config")
        # No keys of the caller's, and nothing that changes how Python starts.
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(config),
            "XDG_STATE_HOME": str(self.home / f"state{state}"),
            "MODEL_PORT": str(self.model_port),
            "PYTHONPATH": str(PROJECT),
        }

    def term2(
        self, *, state: str = "", configured: bool = True, deadline_s: float = 600.0
    ) -> Agent:
        """Term2 as an editor starts it; without a configuration its model is the offline one."""
        argv = [sys.executable, "-m", "term2_acp", "acp"]
        environment = self.environment(state, configured=configured)
        return Agent(argv, environment, deadline_s=deadline_s)

    def bare_loop(self) -> Agent:
        """The floor."""
        return Agent([sys.executable, str(_HERE / "peer_loop.py")], self.environment())

    def install_peers(self) -> None:
        """
        Install what others wrote, unless it is there.

        Raises:
            CalledProcessError: that failed; the script has said why.
        """
        subprocess.run(["/bin/sh", "scripts/peers.sh"], cwd=PROJECT, stdout=sys.stderr, check=True)

    def python_sdk(self) -> Agent:
        """The Python SDK's echo agent; needs `install_peers`."""
        argv = [str(_PEERS / "python"), str(PROJECT / "tests/interop/python_sdk_agent.py")]
        return Agent(argv, self.environment(), version=1)

    def typescript_sdk(self) -> Agent:
        """The TypeScript SDK's example agent; needs `install_peers`."""
        return Agent([str(_PEERS / "node"), str(_TYPESCRIPT_AGENT)], self.environment(), version=1)

    def vendor_seconds(self, orders: str, kind: str) -> tuple[float, float]:
        """
        Seconds that the vendor's SDK alone takes to read what is ordered: all, processor.

        Its `kind` is `typed` or `json`: whether the SDK's types are made of it.
        """
        done = subprocess.run(
            [sys.executable, str(_HERE / "peer_vendor.py"), str(self.model_port), orders, kind],
            env=self.environment(),
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        seconds, cpu, _chunks = done.stdout.split()
        return float(seconds), float(cpu)
