#!/usr/bin/env bash
# Runs a command, and says when it starts, every 20 seconds how long it has been running, and when it has ended.
#
#   hack/progress.sh LABEL COMMAND...
set -euo pipefail

label="$1"
shift
SECONDS=0
echo "$label: started" >&2
(while sleep 20 >/dev/null 2>&1; do echo "$label: running for ${SECONDS} s" >&2; done) &
trap 'kill $! 2>/dev/null' EXIT
"$@"
echo "$label: done after ${SECONDS} s" >&2
