"""Checks the queries of the dashboard: dashboard_queries.py DASHBOARD PAGE FOLDER

FOLDER/metrics has the files that the processes of a job wrote. Every query asks for metrics that they write, and for labels that these
have; every metric is on the dashboard and on PAGE; and the queries are PromQL, as far as the dashboard uses it. Prints the faults and
returns 1 if there are any. Writes rules.json and tests.json to FOLDER, for promtool: the queries, and what they must give for made-up
series of three ranks.
"""

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


class Query:
    """Whether a text is a query: aggregations, functions of one argument, selectors, ranges, and operations of two vectors."""

    TOKEN = re.compile(r'\s*([A-Za-z_]\w*|\$\w+|"[^"]*"|\d+(?:\.\d+)?|=~|!=|!~|>=|<=|[-+*/><=(){}\[\],])')
    AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk", "bottomk"}
    FUNCTIONS = {"rate", "increase", "abs", "ceil", "floor", "label_values"}

    def __init__(self, text):
        self.tokens, at = [], 0
        while text[at:].strip():
            token = self.TOKEN.match(text, at)
            if not token: raise ValueError("%r is nothing that the dashboard may use" % text[at:])
            self.tokens.append(token[1])
            at = token.end()
        self.expression()
        if self.tokens: raise ValueError("%r is left over" % " ".join(self.tokens))

    def next(self): return self.tokens[0] if self.tokens else ""

    def take(self, *wanted):
        if not self.tokens or (wanted and self.tokens[0] not in wanted): raise ValueError("%s is expected where %r is" % (" or ".join(wanted), self.next()))
        return self.tokens.pop(0)

    def names(self):
        self.take("(")
        while self.next() != ")":
            self.take()
            if self.next() != ")": self.take(",")
        self.take(")")

    def expression(self):
        self.vector()
        while self.next() in ("+", "-", "*", "/", ">", "<", ">=", "<="):
            self.take()
            if self.next() in ("on", "ignoring"):
                self.take()
                self.names()
                if self.next() in ("group_left", "group_right"):
                    self.take()
                    if self.next() == "(" and self.tokens[1:2] == [")"]: self.names()
            self.vector()

    def vector(self):
        if self.next() == "(":
            self.take()
            self.expression()
            self.take(")")
            return
        name = self.take()
        if name in self.AGGREGATIONS:
            if self.next() in ("by", "without"):
                self.take()
                self.names()
            self.arguments(2 if name in ("topk", "bottomk") else 1)
        elif name in self.FUNCTIONS:
            self.arguments(2 if name == "label_values" else 1)
        elif re.match(r"[A-Za-z_]", name):
            self.selector()
        elif not name[0].isdigit():
            raise ValueError("%r is no vector" % name)

    def arguments(self, count):
        self.take("(")
        for i in range(count):
            if i: self.take(",")
            self.expression()
        self.take(")")

    def selector(self):
        if self.next() == "{":
            self.take()
            while self.next() != "}":
                self.take()
                self.take("=", "!=", "=~", "!~")
                if not self.take().startswith('"'): raise ValueError("a text is expected behind a label")
                if self.next() != "}": self.take(",")
            self.take("}")
        if self.next() == "[":
            self.take()
            self.take()
            self.take("]")


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
    try: Query(query)
    except ValueError as fault: faults.append("%s is no query: %s" % (title, fault))
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
