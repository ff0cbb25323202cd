#!/bin/sh
# Runs the tests on the other end of the supported Pythons, if this machine has one.
#
#     scripts/second_python.sh FIRST VENV EXTRAS -- PYTEST-ARGUMENTS
#
# FIRST is the interpreter that the tests ran on already; VENV is the environment to make.
set -eu
cd "$(dirname "$0")/.."
first=$1 venv=$2 extras=$3
shift 4

done_already=$(scripts/pick_python.sh version "$first")
for end in newest oldest; do
    python=$(scripts/pick_python.sh $end)
    version=$(scripts/pick_python.sh version "$python")
    if [ "$version" != "$done_already" ]; then
        VENV=$venv PYTHON=$python scripts/setup.sh "$extras"
        exec "$venv/bin/python" -m pytest "$@"
    fi
done
echo "second Python: only $done_already is here, nothing to do"
