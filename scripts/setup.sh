#!/bin/sh
# Makes the virtual environment and installs this package into it, editable, with the named extras.
#
#     scripts/setup.sh EXTRAS        for example: scripts/setup.sh examples,arrow
#
# VENV    where (default .venv)
# PYTHON  which interpreter (default: the first of 3.11 to 3.13 that is found and runs)
#
# The second time it ends at once, unless pyproject.toml, this script or PYTHON changed.
set -eu

cd "$(dirname "$0")/.."
extras=${1:?name the extras, such as: scripts/setup.sh examples}
venv=${VENV:-.venv}
stamps=$venv/.stamps

say() { printf '%s\n' "set-up: $*" >&2; }
fail() { say "$@"; exit 1; }

version_of() { scripts/pick_python.sh version "$1"; }
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "installing Debian packages: $*"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2 || return 1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        </dev/null >&2
}

make_venv() {
    python=$1
    if has_venv "$python"; then "$python" -m venv "$venv"; return; fi
    say "$python has no ensurepip (on Debian it comes with python$(version_of "$python")-venv)"
    if apt_install "python$(version_of "$python")-venv" && has_venv "$python"; then
        "$python" -m venv "$venv"
        return
    fi
    if "$python" -m virtualenv --version >/dev/null 2>&1; then
        "$python" -m virtualenv -q "$venv"
        return
    fi
    # Into a folder of its own: a system's Python may refuse packages beside its own (PEP 668).
    if "$python" -m pip --version >/dev/null 2>&1; then
        tools=$(mktemp -d)
        if "$python" -m pip install -q --target "$tools" virtualenv >&2 \
            && PYTHONPATH=$tools "$python" -m virtualenv -q "$venv"; then
            rm -rf "$tools"
            return
        fi
        rm -rf "$tools"
    fi
    if command -v uv >/dev/null 2>&1; then uv venv -q --seed --python "$python" "$venv"; return; fi
    fail "$python can't make a virtual environment. As root: apt-get install" \
        "python$(version_of "$python")-venv; or make one yourself and name it: make VENV=path ..."
}

wanted() {
    printf '%s %s\n' "$(pwd)" "${PYTHON:-}"
    cat pyproject.toml src/fed/_version.py scripts/setup.sh
}
mark=$(wanted | cksum)

if [ -f "$stamps/$extras" ] && [ "$(cat "$stamps/$extras")" = "$mark" ] \
    && "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

if [ -e "$venv" ] && ! [ -w "$venv" ]; then
    fail "$venv belongs to another user; take it away, or name another place: make VENV=path ..."
fi

have=$(version_of "$venv/bin/python" || true)
if [ -n "${PYTHON:-}" ]; then
    want=$(version_of "$PYTHON") || fail "PYTHON=$PYTHON is not a Python of 3.11 to 3.13 that runs"
    [ "$have" = "$want" ] || have=
fi
if [ -n "$have" ] && ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then have=; fi

if [ -z "$have" ]; then
    python=${PYTHON:-$(scripts/pick_python.sh first)}
    if [ -z "$python" ] && apt_install python3 python3-venv; then python=$(scripts/pick_python.sh first); fi
    if [ -e "$venv" ]; then
        [ -f "$venv/pyvenv.cfg" ] || [ -z "$(ls -A "$venv")" ] \
            || fail "$venv is no virtual environment; take it away, or name another place by VENV="
        rm -rf "$venv"
    fi
    if [ -n "$python" ]; then
        say "making $venv with $python ($(version_of "$python"))"
        make_venv "$python"
    elif command -v uv >/dev/null 2>&1; then
        say "no Python of 3.11 to 3.13 found; uv fetches one"
        uv venv -q --seed --python 3.13 "$venv"
    else
        fail "no Python of 3.11 to 3.13 found; install one (Debian: apt-get install python3" \
            "python3-venv), or name it: make PYTHON=/path/to/python3.12 ..."
    fi
fi

say "installing rayfed[$extras] into $venv (a minute or two the first time)"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input \
    ${PIP_CONSTRAINTS:+--constraint "$PIP_CONSTRAINTS"} -e ".[$extras]" </dev/null
mkdir -p "$stamps"
printf '%s\n' "$mark" >"$stamps/$extras"
