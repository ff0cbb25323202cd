#!/usr/bin/env bash
# Usage: torch_if_small.sh PYTHON
# Installs torch's CPU build into PYTHON's environment, so that the tests of tensors run, where the
# package index has one for this machine. Elsewhere `torch` is a build of several gigabytes for GPUs:
# then it is left out, and those tests are skipped with the reason.
set -euo pipefail
python=$1
version=2.13.0
needs=(filelock fsspec jinja2 markupsafe mpmath networkx sympy typing_extensions)

if "$python" -c 'import torch' 2>/dev/null; then
    exit 0
fi
# Without what it depends on: a build for GPUs would bring gigabytes, and then can't be imported.
if timeout 300 "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: "torch==$version" "${needs[@]}" >/dev/null 2>&1 \
    && "$python" -c 'import torch' 2>/dev/null; then
    echo "torch $version: its tests run"
else
    "$python" -m pip uninstall --quiet --yes torch >/dev/null 2>&1 || true
    echo "no CPU build of torch $version here: its tests are skipped"
fi
