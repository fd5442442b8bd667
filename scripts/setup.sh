#!/bin/sh
# Set up everything that `make demo` and `make test` need, and nothing twice:
#   - .venv with the locked dependencies and this project (editable);
#   - bubblewrap and git, by apt, on Debian and what derives from it.
# PYTHON names the interpreter to use; otherwise the first Python 3.11+ on PATH is.
set -eu

cd "$(dirname "$0")/.."
venv=.venv
stamp=$venv/.setup-stamp

say() {
    printf 'setup: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        if is_new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or newer was found${PYTHON:+ as $PYTHON}. Install one, or name it: make setup PYTHON=/path/to/python3"
}

# Install Debian packages, or say which command would. The arguments are packages.
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

how_to_install() {
    if command -v apt-get >/dev/null 2>&1; then
        printf 'run: sudo apt-get install %s' "$*"
    else
        printf 'install %s with the package manager of this system' "$*"
    fi
}

require_commands() {
    missing=
    needed=git
    # For the tests of what only some people have.
    [ -z "${TERM2_CI:-}" ] || needed='git openssl zsh fish'
    for name in $needed; do
        command -v "$name" >/dev/null 2>&1 || missing="$missing $name"
    done
    case "$(uname -s)" in
    Linux)
        command -v bwrap >/dev/null 2>&1 || missing="$missing bubblewrap"
        ;;
    Darwin)
        command -v sandbox-exec >/dev/null 2>&1 ||
            die "sandbox-exec is missing; it is a part of macOS in /usr/bin"
        ;;
    *)
        die "term2 runs on Linux and macOS, not on $(uname -s)"
        ;;
    esac
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086  # one word a package
    apt_install $missing ||
        die "missing:$missing. They could not be installed from here; $(how_to_install $missing)"
}

# A venv that was left half made, moved or made by a Python that is gone is made anew.
is_usable() {
    [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python" &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

make_venv() {
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        package=python3-venv
        version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
        case "$python" in
        python3 | */python3) ;;
        *) package=$version-venv ;;
        esac
        apt_install "$package" ||
            die "$python cannot make virtual environments; $(how_to_install "$package")"
    fi
    say "making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" ||
        die "$python could not make $venv; see the message above"
}

# What an installed .venv depends on: where it lies and what it was made from.
fingerprint() {
    pwd -P
    cat setup.cfg constraints.txt scripts/setup.sh term2_acp/__init__.py | cksum
}

install() {
    say "installing the locked dependencies"
    pip="$venv/bin/python -m pip --disable-pip-version-check"
    # What an earlier build left would speak for the new one to whoever runs from here.
    rm -rf term2.egg-info
    # pip and the build back end are locked too, so there is no isolated, unlocked build.
    $pip install --quiet -c constraints.txt pip setuptools &&
        # -qq: without the back end's remarks on what an editable install is.
        $pip install -qq -c constraints.txt --no-build-isolation -e '.[test]' &&
        # As pip does with the rest: also under PYTHONDONTWRITEBYTECODE a start compiles nothing.
        "$venv/bin/python" -m compileall -q term2_acp sandbox
}

require_commands
is_usable || make_venv
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$(fingerprint)" ]; then
    rm -f "$stamp"
    install || die "the installation failed; see the message above"
    fingerprint >"$stamp"
    say "done"
fi
