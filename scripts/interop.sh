#!/bin/sh
# Drive term2 with clients that others wrote (tests/interop), and nothing is skipped:
#   - Node.js and npm, by apt, on Debian and what derives from it;
#   - tests/interop/node_modules with the locked TypeScript SDK;
#   - .venv-interop with the locked Python SDK, so that it stays out of .venv;
#   - then the tests that are marked `interop`. The arguments are pytest's.
# .venv must be there: `make interop` sees to it.
set -eu

cd "$(dirname "$0")/.."
node_folder=tests/interop
requirements=$node_folder/requirements.txt
venv=.venv-interop
oldest_node=18

say() {
    printf 'interop: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

# Install Debian packages; fails where that is not possible. The arguments are packages.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" -eq 0 ]; then
        root=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        root='sudo -n'
    else
        return 1
    fi
    say "installing $* with apt-get"
    # The lists may be old or absent; a failing update matters only if the install fails too.
    apt_get update || say "apt-get update failed; trying all the same"
    apt_get install -y --no-install-recommends "$@"
}

# Run apt-get, and show what it said only if it fails.
apt_get() {
    output=$($root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=120 "$@" 2>&1) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}

require_node() {
    missing=
    command -v node >/dev/null 2>&1 || missing="$missing nodejs"
    command -v npm >/dev/null 2>&1 || missing="$missing npm"
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086  # one word a package
        apt_install $missing ||
            die "missing:$missing. They could not be installed from here; install Node.js $oldest_node or newer with npm, by the package manager of this system"
    fi
    node -e "process.exit(parseInt(process.versions.node) < $oldest_node ? 1 : 0)" ||
        die "Node.js $(node --version) is too old; the TypeScript SDK needs $oldest_node or newer"
}

# Whether what a stamp file ($1) stands for was made from this ($2).
is_current() {
    [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]
}

install_typescript_sdk() {
    stamp=$node_folder/node_modules/.interop-stamp
    wanted="$(node --version) $(cksum <$node_folder/package-lock.json)"
    is_current "$stamp" "$wanted" && return
    say "installing the locked TypeScript SDK"
    # No package of the lock has an install script; none that comes may run one.
    (cd $node_folder && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) ||
        die "npm could not install the TypeScript SDK; see the message above"
    printf '%s\n' "$wanted" >"$stamp"
}

install_python_sdk() {
    stamp=$venv/.interop-stamp
    wanted="$(pwd -P) $(.venv/bin/python --version) $(cksum <$requirements)"
    is_current "$stamp" "$wanted" && return
    say "installing the locked Python SDK into $venv"
    pip="$venv/bin/python -m pip --disable-pip-version-check"
    # The lock names every dependency; `pip check` says so if it does not.
    {
        .venv/bin/python -m venv --clear $venv &&
            $pip install --quiet --no-deps -r $requirements &&
            $pip check >&2
    } || die "the Python SDK could not be installed; see the message above"
    printf '%s\n' "$wanted" >"$stamp"
}

[ -x .venv/bin/python ] || die ".venv is missing; run: make interop"
require_node
install_typescript_sdk
install_python_sdk
exec .venv/bin/python -m pytest -m interop tests/interop "$@"
