#!/bin/bash
# promtool finds nothing wrong with the metrics that a job writes, nor with the queries of the dashboard share/grafana/tutti.json, and
# these compute what their panels say.
# ctest: label=nosan label=once waits
set -euo pipefail
cd "${TUTTI_ROOT:?}"
if ! command -v promtool >/dev/null || ! command -v python3 >/dev/null; then
    echo "promtool (Debian: prometheus) or python3 is not here"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/metrics"
TUTTI_METRICS_DIR=$work/metrics "${TUTTI_BIN:?}/tutti-run" -n 2 "$TUTTI_BIN/hello" >"$work/said" || { cat "$work/said"; exit 1; }
python3 tests/tools/dashboard_queries.py share/grafana/tutti.json docs/how-to/metrics.md "$work"
bad=0
for file in "$work"/metrics/*.prom; do promtool check metrics <"$file" >"$work/said" 2>&1 || { cat "$work/said"; bad=1; }; done
# JSON is YAML.
promtool check rules "$work/rules.json" >"$work/said" 2>&1 || { cat "$work/said"; bad=1; }
(cd "$work" && promtool test rules tests.json) >"$work/said" 2>&1 || { cat "$work/said"; bad=1; }
if promtool check metrics <<<'# TYPE a counter
a{b="1"} 1' >/dev/null 2>&1; then echo "this test does not work: promtool takes any text"; bad=1; fi
exit $bad
