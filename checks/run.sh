#!/usr/bin/env bash
# Builds what is not built yet and runs the main job. Arguments go to `assay verify`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build_target assay_program
exec "$build/assay" verify "$@"
