#!/bin/sh
# Prints an interpreter that this package supports (3.11 to 3.13), or nothing if there is none.
#
#     scripts/pick_python.sh first         the one to use if nobody says otherwise
#     scripts/pick_python.sh oldest        of all that are found
#     scripts/pick_python.sh newest
#     scripts/pick_python.sh version PATH  "3.12", or failure if PATH is not supported or won't run
set -eu

version_of() {
    "$1" -c 'import sys
v = sys.version_info[:2]
if not (3, 11) <= v < (3, 14): sys.exit(1)
print("%d.%d" % v)' 2>/dev/null
}

candidates() {
    printf '%s\n' python3 python3.13 python3.12 python3.11 python
    for found in /usr/bin/python3 /usr/bin/python3.1[123] /usr/local/bin/python3.1[123] \
        "${HOME:-/nonexistent}"/.pyenv/versions/3.1[123].*/bin/python \
        "${HOME:-/nonexistent}"/.local/bin/python3.1[123] /opt/python/3.1[123]*/bin/python3; do
        if [ -x "$found" ]; then printf '%s\n' "$found"; fi
    done
}

# "3.12 path" for each that runs: a name on PATH may be a shim of a version that is not there.
found() {
    candidates | while read -r python; do
        if version=$(version_of "$python"); then printf '%s %s\n' "$version" "$python"; fi
    done
}

# The first that can make environments by itself, else the first.
first() {
    found | {
        spare=
        while read -r _ python; do
            if "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
                printf '%s\n' "$python"
                exit
            fi
            spare=${spare:-$python}
        done
        printf '%s\n' "$spare"
    }
}

case ${1:-first} in
    first) first ;;
    oldest) found | sort -s -t. -k2,2n | head -n 1 | cut -d' ' -f2- ;;
    newest) found | sort -s -t. -k2,2nr | head -n 1 | cut -d' ' -f2- ;;
    version) version_of "$2" ;;
    *) printf 'usage: %s first|oldest|newest|version PATH\n' "$0" >&2; exit 2 ;;
esac
