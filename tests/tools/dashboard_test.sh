#!/bin/bash
# The metrics that a job writes are those of docs/how-to/metrics.md, and no two processes write the same line. Every query of the
# dashboard share/grafana/tutti.json is one, and asks for such a metric and for labels that it has; every metric is on the dashboard.
# Results of queries: dashboard_promtool_test.sh.
# ctest: label=nosan label=once waits
set -euo pipefail
cd "${TUTTI_ROOT:?}"
if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work" "$work-broken"' EXIT

mkdir "$work/metrics"
TUTTI_METRICS_DIR=$work/metrics "${TUTTI_BIN:?}/tutti-run" -n 2 "$TUTTI_BIN/hello" >"$work/said" || { cat "$work/said"; exit 1; }
check() { python3 tests/tools/dashboard_queries.py "$@"; } # dashboard, page, folder
bad=0
check share/grafana/tutti.json docs/how-to/metrics.md "$work" || bad=1

# It can fail.
cp -r "$work" "$work-broken"
sed 's/tutti_failures_total/tutti_faults_total/; s/by (collective)/by (operation)/; s/\$instance/$host/; s/topk(10, /topk(/' \
    share/grafana/tutti.json >"$work-broken/dashboard.json"
grep -v '`tutti_idle_seconds`' docs/how-to/metrics.md >"$work-broken/page.md"
for file in "$work-broken"/metrics/*.prom; do sed -i 's/process="[^"]*"/process="1"/' "$file"; done
said=$(check "$work-broken/dashboard.json" "$work-broken/page.md" "$work-broken" || true)
for words in 'asks for tutti_faults_total' 'tutti_calls_total has no label operation' 'there is no variable $host' \
    'Held up by rank is no query: , is expected' \
    'does not list tutti_idle_seconds' 'does not show tutti_failures_total' 'two processes write tutti_communicators'; do
    grep -qF -- "$words" <<<"$said" || { echo "this test does not work: '$words' is not in: $said"; bad=1; }
done
exit $bad
