#!/usr/bin/env bash
# Builds everything and runs all tests. Arguments go to ctest (for example -R mdn).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build_target all
exec ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" "$@" </dev/null
