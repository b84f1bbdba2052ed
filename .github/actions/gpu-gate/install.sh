#!/usr/bin/env bash
# Makes the gate's environment: PyTorch of one version, cgverify as it lies beside this action, and what else is asked for.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
venv="${RUNNER_TEMP:?}/cgverify-gate"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "torch==${TORCH:?}" "$root"
if [ -n "${INSTALL:-}" ]; then
  read -ra wanted <<< "$INSTALL"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${wanted[@]}"
fi
"$venv/bin/cgverify" doctor
