#!/usr/bin/env bash
# Runs the gate: exit code 0 open, 1 closed, 2 it could not run. CGVERIFY names the command, that of install.sh if unset.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
arguments=("${FOLDER:-$root/fuzz}" --target "${TARGET:-cgverify}" --device "${DEVICE:-cuda}" --profile "${PROFILE:-gate}")
[ -z "${PROGRAMS:-}" ] || arguments+=(--programs "$PROGRAMS")
[ -z "${SECONDS_EACH:-}" ] || arguments+=(--seconds "$SECONDS_EACH")
read -ra command <<< "${CGVERIFY:-${RUNNER_TEMP:-}/cgverify-gate/bin/cgverify}"
export OMP_NUM_THREADS=1
exec "${command[@]}" gate "${arguments[@]}"
