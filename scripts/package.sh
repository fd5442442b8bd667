#!/bin/sh
# Build the sdist and, from it alone, the wheel into dist/; then install the wheel with the
# locked dependencies into a fresh environment, as a user would, and run what it installed.
set -eu

cd "$(dirname "$0")/.."
here=$PWD
python=$here/.venv/bin/python
pip="-m pip --disable-pip-version-check --quiet"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() {
    printf 'package: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

say "building"
rm -rf dist
mkdir "$scratch/tree" "$scratch/source"
# From a copy: a build leaves metadata behind that would speak for later ones.
cp -R setup.cfg pyproject.toml README.md LICENSE term2_acp sandbox "$scratch/tree"
# The back end of the lock, so that nothing else is fetched.
(cd "$scratch/tree" && $python -c "
import sys
from setuptools import build_meta
build_meta.build_sdist(sys.argv[1])" "$here/dist") >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" >&2; die "the sdist could not be built"; }
tar -xzf dist/term2-*.tar.gz -C "$scratch/source" --strip-components 1
# shellcheck disable=SC2086  # words
$python $pip wheel --no-build-isolation --no-deps --no-index -w dist "$scratch/source"

say "looking into the wheel"
$python -m zipfile -l dist/term2-*.whl >"$scratch/names"
for name in term2_acp/py.typed sandbox/py.typed term2_acp/catalog.json \
    term2_acp/tools/run_code.py.txt licenses/LICENSE entry_points.txt; do
    grep -qF "$name" "$scratch/names" || die "the wheel lacks $name"
done
if grep -E '^(tests|scripts|docs)/' "$scratch/names"; then
    die "the wheel has what is not for users"
fi

say "installing it into a fresh environment"
$python -m venv "$scratch/venv"
# shellcheck disable=SC2086
"$scratch/venv/bin/python" $pip install --no-compile -c constraints.txt dist/term2-*.whl
term2=$scratch/venv/bin/term2

say "running it"
export XDG_CONFIG_HOME="$scratch/config" XDG_STATE_HOME="$scratch/state"
# The doctor is to judge what was installed, not the services of who runs this.
unset PYTHONPATH OPENAI_API_KEY ANTHROPIC_API_KEY OPENROUTER_API_KEY TERM2_TRACE TERM2_LOG_FILE
version=$($python -c 'import term2_acp; print(term2_acp.__version__)')
# From elsewhere, so that only what is installed can be found.
cd "$scratch"
[ "$("$term2" --version)" = "term2 $version" ] || die "term2 --version is not $version"
[ "$("$scratch/venv/bin/python" -m term2_acp --version)" = "term2 $version" ] ||
    die "python -m term2_acp is another program"
"$term2" completion bash | bash -n || die "the completion is no script of bash"
"$term2" doctor --json >doctor.json || { cat doctor.json >&2; die "term2 doctor has failed"; }
"$scratch/venv/bin/python" "$here/scripts/smoke" -- "$term2" acp --provider offline
say "done: $(cd "$here" && echo dist/*)"
