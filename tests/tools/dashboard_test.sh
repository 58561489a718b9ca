#!/bin/bash
# The metrics that a job writes are those of docs/how-to/metrics.md, no two processes write the same line, and promtool finds nothing
# wrong with them. Every query of the dashboard share/grafana/tutti.json asks for such a metric and for labels that it has, every metric
# is on the dashboard, and the queries compute what their panels say.
# ctest: label=nosan label=once waits
set -euo pipefail
cd "${TUTTI_ROOT:?}"
if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/metrics"
TUTTI_METRICS_DIR=$work/metrics "${TUTTI_BIN:?}/tutti-run" -n 2 "$TUTTI_BIN/hello" >"$work/said" || { cat "$work/said"; exit 1; }

# Writes rules of the dashboard's queries, and what they must give, for promtool.
check() { # dashboard, page, folder
    python3 - "$@" <<'END'
import glob, json, re, sys

dashboard_path, page_path, folder = sys.argv[1:]
faults = []
exported, lines = {}, []
for path in sorted(glob.glob(folder + "/metrics/*.prom")):
    for line in open(path):
        kind = re.match(r"# TYPE (\w+) (\w+)$", line)
        if kind:
            exported.setdefault(kind[1], set())
        series = re.match(r"(\w+)(?:\{(.*)\})? [\d.]+$", line)
        if series:
            exported[series[1]].update(re.findall(r'(\w+)="', series[2] or ""))
            lines.append(line.rpartition(" ")[0])
        elif not line.startswith("# "):
            faults.append("%s: %r is no metric" % (path, line))
if len(exported) < 5 or len(glob.glob(folder + "/metrics/*.prom")) != 2:
    faults.append("this test does not work: the job wrote %s" % exported)
faults += ["two processes write %s" % line for line in sorted(set(lines)) if lines.count(line) > 1]

listed = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in
          re.findall(r"^\| `(tutti_\w+)` \| ([^|]*)\|", open(page_path).read(), re.M)}
faults += ["%s does not list %s" % (page_path, name) for name in exported if name not in listed]
faults += ["no process writes %s of %s" % (name, page_path) for name in listed if name not in exported]
for name, labels in exported.items():
    if name not in listed: continue
    if labels and labels != listed[name]:
        faults.append("%s has labels %s, and %s says %s" % (name, sorted(labels), page_path, sorted(listed[name])))
    labels |= listed[name] | {"instance", "job"}

dashboard = json.load(open(dashboard_path))
queries = [(panel["title"], target["expr"], target["legendFormat"]) for panel in dashboard["panels"] for target in panel["targets"]]
variables = {one["name"]: one["query"] for one in dashboard["templating"]["list"]}
asked = queries + [("$" + name, query["query"], "") for name, query in variables.items() if isinstance(query, dict)]
used, rules = set(), []
for title, query, legend in asked:
    names = set(re.findall(r"\btutti_\w+", query))
    if not names: faults.append("%s asks for no metric: %s" % (title, query))
    for name in sorted(names):
        if name not in exported:
            faults.append("%s asks for %s, which no process writes" % (title, name))
            continue
        labels = set(re.findall(r"\{\{(\w+)\}\}", legend)) | set(re.findall(r"(\w+)=~?\"", query))
        for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) + re.findall(r", (\w+)\)$", query): labels |= set(re.findall(r"\w+", group))
        faults += ["%s: %s has no label %s" % (title, name, one) for one in sorted(labels - exported[name])]
    used |= names
    for one in re.findall(r"\$(\w+)", query):
        if one not in variables and not one.startswith("__"): faults.append("%s: there is no variable $%s" % (title, one))
faults += ["the dashboard does not show %s" % name for name in sorted(set(exported) - used)]


def plain(query):
    return query.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$communicator", ".*")


rules = {"groups": [{"name": "tutti", "rules": [{"record": "panel_%d" % i, "expr": plain(query)} for i, (_, query, _) in enumerate(queries)]}]}
json.dump(rules, open(folder + "/rules.json", "w"))
# Three ranks, each on a host: rank 1 has begun two calls fewer than the others, which wait for it.
ranks = [(rank, 'instance="host%d"' % rank) for rank in range(3)]
series = []
for rank, host in ranks:
    whose = '{communicator="cafe",rank="%d",size="3",%s}' % (rank, host)
    series += [("tutti_sequence" + whose, "%d+60x4" % (100 - (2 if rank == 1 else 0))), ("tutti_idle_seconds" + whose, "%dx4" % rank),
               ('tutti_calls_total{collective="allreduce",process="p%d",%s}' % (rank, host), "0+60x4"),
               ('tutti_bytes_total{collective="allreduce",process="p%d",%s}' % (rank, host), "0+6000x4"),
               ('tutti_calls_total{collective="send",process="p%d",%s}' % (rank, host), "7x4"),
               ('tutti_failures_total{process="p%d",%s}' % (rank, host), "%dx4" % (rank == 2)),
               ('tutti_communicators{process="p%d",%s}' % (rank, host), "1x4")]
    if rank != 1: series.append(('tutti_held_up_seconds_total{communicator="cafe",rank="%d",by="1",%s}' % (rank, host), "0+6x4"))
of = '{communicator="cafe", rank="%d"}'
results = {"Communicators that failed": [("{}", 1)], "Communicators": [("{}", 3)], "Calls per second": [('{collective="allreduce"}', 3)],
           "Bytes per second": [('{collective="allreduce"}', 300)],
           "Calls behind the first rank": [(of % 0, 0), (of % 1, 2), (of % 2, 0)],
           "Time since an operation was completed": [(of % rank, rank) for rank in range(3)],
           "Held up by rank": [('{communicator="cafe", by="1"}', 0.2)]}
faults += ["this test does not say what the panel %r shows" % title for title, _, _ in queries if title not in results]
tests = [{"expr": plain(query).replace("[1m]", "[3m]"), "eval_time": "4m",
          "exp_samples": [{"labels": labels, "value": value} for labels, value in results.get(title, [])]} for title, query, _ in queries]
json.dump({"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": [
    {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series], "promql_expr_test": tests}]},
          open(folder + "/tests.json", "w"))
print("\n".join(faults + ["%d queries for %d metrics, %d faults" % (len(asked), len(exported), len(faults))]))
sys.exit(bool(faults))
END
}
bad=0
check share/grafana/tutti.json docs/how-to/metrics.md "$work" || bad=1

# It can fail.
cp -r "$work" "$work-broken"
trap 'rm -rf "$work" "$work-broken"' EXIT
sed 's/tutti_failures_total/tutti_faults_total/; s/by (collective)/by (operation)/; s/\$instance/$host/' share/grafana/tutti.json >"$work-broken/dashboard.json"
grep -v '`tutti_idle_seconds`' docs/how-to/metrics.md >"$work-broken/page.md"
for file in "$work-broken"/metrics/*.prom; do sed -i 's/process="[^"]*"/process="1"/' "$file"; done
said=$(check "$work-broken/dashboard.json" "$work-broken/page.md" "$work-broken" || true)
for words in 'asks for tutti_faults_total' 'tutti_calls_total has no label operation' 'there is no variable $host' \
    'does not list tutti_idle_seconds' 'does not show tutti_failures_total' 'two processes write tutti_communicators'; do
    grep -qF -- "$words" <<<"$said" || { echo "this test does not work: '$words' is not in: $said"; bad=1; }
done

if ! command -v promtool >/dev/null; then
    echo "promtool is not here (Debian: prometheus)"
    exit $((bad ? 1 : 77))
fi
for file in "$work"/metrics/*.prom; do promtool check metrics <"$file" >"$work/said" 2>&1 || { cat "$work/said"; bad=1; }; done
# JSON is YAML.
promtool check rules "$work/rules.json" >"$work/said" 2>&1 || { cat "$work/said"; bad=1; }
(cd "$work" && promtool test rules tests.json) >"$work/said" 2>&1 || { cat "$work/said"; bad=1; }
if promtool check metrics <<<'# TYPE a counter
a{b="1"} 1' >/dev/null 2>&1; then echo "this test does not work: promtool takes any text"; bad=1; fi
exit $bad
