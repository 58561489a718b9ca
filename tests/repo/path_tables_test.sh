#!/bin/bash
# The tables of docs/explanation/performance.md that say which ways messages take are what tutti-plan says.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"
python3 scripts/path_tables.py --tutti-plan "${TUTTI_BIN:?}/tutti-plan" --check
