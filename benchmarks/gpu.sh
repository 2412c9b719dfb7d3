#!/usr/bin/env bash
# Everything that a CUDA machine can tell, in under eight minutes and without network:
#
#   bash benchmarks/gpu.sh [--to DIR] [--minutes 8] [--device cuda] [--quick] [--only STEP,…]
#
# Calibration, the four sweeps at the article's sizes, per-op times of two models, the tests marked `gpu`, and, where
# ncu is there, DRAM bytes of ten ops beside our estimates. Raw results and summary.md are written as it goes.
#
# It takes the first Python from 3.11 on that has torch; PYTHON=... names another. What else it needs is small and pure
# or has wheels for every Python: made on a machine with network, and carried along, by
#
#   bash benchmarks/gpu.sh --pack        # fills build/gpu-wheels, which git ignores
set -uo pipefail
cd "$(dirname "$0")/.."
wheels=build/gpu-wheels
needs="click jinja2 msgspec rich pytest pytest-timeout hypothesis"

if [ "${1:-}" = --pack ]; then
  mkdir -p "$wheels"
  for version in 3.11 3.12 3.13 3.14; do
    # shellcheck disable=SC2086
    "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --only-binary :all: \
      --python-version "$version" --dest "$wheels" $needs 2>/dev/null || echo "no wheels for Python $version" >&2
  done
  du -sh "$wheels"
  exit 0
fi

python=
for candidate in ${PYTHON:-python3 python python3.14 python3.13 python3.12 python3.11}; do
  if "$candidate" -c 'import sys, torch; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "error: no Python from 3.11 on with torch; name one: PYTHON=/path/to/python" >&2; exit 1; }

export PYTHONPATH="$PWD/src:$PWD/build/gpu-deps${PYTHONPATH:+:$PYTHONPATH}"
if ! "$python" -c 'import click, hypothesis, jinja2, msgspec, pytest, pytest_timeout, rich' 2>/dev/null; then
  # shellcheck disable=SC2086
  "$python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$wheels" \
    --target build/gpu-deps --upgrade $needs ||
    "$python" -m pip install --quiet --disable-pip-version-check --target build/gpu-deps --upgrade $needs ||
    { echo "error: $needs are missing; carry them along: bash benchmarks/gpu.sh --pack" >&2; exit 1; }
fi
exec "$python" benchmarks/gpu_run.py "$@"
