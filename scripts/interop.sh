#!/bin/sh
# Drive term2 with clients that others wrote (tests/interop), and nothing is skipped: what
# cannot be installed makes it fail. The arguments are pytest's.
set -eu

cd "$(dirname "$0")/.."
sh scripts/peers.sh
exec .venv/bin/python -m pytest -m interop tests/interop "$@"
