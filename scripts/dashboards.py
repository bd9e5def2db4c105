#!/usr/bin/env python3
"""dashboards.py [--check] - writes the Grafana dashboards in manifests/components/dashboards

The tables below are the source: rows of panels, and the PromQL of each panel. The rest of a dashboard's JSON is the same
for all panels of a kind. No plugin is needed; Grafana 10 and later read the files.

    scripts/dashboards.py            writes cluster.json, tenant.json and service.json
    scripts/dashboards.py --check    writes nothing; fails if a file is not what would be written
"""

import argparse
import json
import os
import sys

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
FOLDER = os.path.join(TOP, "manifests", "components", "dashboards")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24  # of Grafana's grid
MIB = 1024 * 1024

# Units, as Grafana names them
PLAIN, PART, SECONDS, BYTES, CALLS, EVENTS = "none", "percentunit", "s", "bytes", "reqps", "cps"
CELSIUS, WATTS = "celsius", "watt"

GOOD, WARN, BAD = "green", "orange", "red"
FROM_ONE_WARN = [(None, GOOD), (1, WARN)]
FROM_ONE_BAD = [(None, GOOD), (1, BAD)]


# ---- queries ---------------------------------------------------------------------------------------------------------


def query(expression, legend="", now=False):
    """One query of a panel. now: its last value only, not its course."""
    return {"expr": expression, "legendFormat": legend or "__auto", "instant": now, "range": not now}


def numbered(queries, table):
    """The queries with what Grafana wants in each; refId is A, B and so on."""
    return [{"datasource": DATASOURCE, "editorMode": "code", "format": "table" if table else "time_series",
             "refId": chr(ord("A") + at), **one} for at, one in enumerate(queries)]


# ---- panels ----------------------------------------------------------------------------------------------------------


def panel(kind, title, says, width, height, queries, *, unit=PLAIN, decimals=None, steps=None, custom=None, options=None,
          mappings=(), low=None, high=None, none=None):
    steps = steps or [(None, GOOD)]
    defaults = {
        "unit": unit,
        "mappings": list(mappings),
        "color": {"mode": "thresholds" if kind in ("stat", "bargauge") else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": [{"color": color, "value": value} for value, color in steps]},
        "custom": custom or {},
    }
    defaults.update({name: value for name, value in (("decimals", decimals), ("min", low), ("max", high), ("noValue", none))
                     if value is not None})
    return {
        "type": kind, "title": title, "description": says, "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height}, "targets": numbered(queries, kind == "table"),
        "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options or {},
    }


REDUCED = {"calcs": ["lastNotNull"], "fields": "", "values": False}


def stat(title, says, expression, unit=PLAIN, *, decimals=None, steps=None, words=None, name="", none=None, width=3):
    """One number. words: what stands for a value; none: for no data. name: what is shown in place of the number."""
    mappings = [{"type": "value", "options": {value: {"text": text, "color": color, "index": at}
                                              for at, (value, text, color) in enumerate(words)}}] if words else []
    options = {"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
               "percentChangeColorMode": "standard", "reduceOptions": REDUCED, "showPercentChange": False,
               "textMode": "name" if name else "value", "wideLayout": True}
    return panel("stat", title, says, width, 4, [query(expression, name, now=True)], unit=unit, decimals=decimals,
                 steps=steps, mappings=mappings, options=options, none=none)


def graph(title, says, *queries, unit=PLAIN, stacked=False, width=8, low=0, high=None, steps=None):
    """Courses over time; a query is an expression with its legend."""
    custom = {
        "drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "showPoints": "never", "spanNulls": False,
        "fillOpacity": 30 if stacked else 0, "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "axisPlacement": "auto", "axisLabel": "", "thresholdsStyle": {"mode": "line" if steps else "off"},
    }
    options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    return panel("timeseries", title, says, width, 8, [query(*one) for one in queries], unit=unit, custom=custom,
                 options=options, low=low, high=high, steps=steps)


def bars(title, says, expression, legend, unit=PLAIN, *, width=8, high=None):
    """The last value of each series, as a bar."""
    options = {"displayMode": "basic", "orientation": "horizontal", "reduceOptions": REDUCED, "showUnfilled": True,
               "valueMode": "color", "namePlacement": "auto", "sizing": "auto", "minVizWidth": 8, "minVizHeight": 16,
               "maxVizHeight": 300, "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []}}
    return panel("bargauge", title, says, width, 8, [query(expression, legend, now=True)], unit=unit, options=options,
                 low=0, high=high)


def table(title, says, labels, *values, width=24, by=None):
    """Rows by labels; values: (head of the column, expression, unit). by: the head of the column that orders the rows."""
    one = panel("table", title, says, width, 8, [query(expression, now=True) for _, expression, _ in values],
                custom={"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": True},
                options={"cellHeight": "sm", "frameIndex": 0, "showHeader": True,
                         "footer": {"show": False, "reducer": ["sum"], "fields": "", "countRows": False},
                         "sortBy": [{"displayName": by or values[0][0], "desc": True}]})
    # Grafana calls the column of a single query "Value".
    columns = ["Value"] if len(values) == 1 else [f"Value #{chr(ord('A') + at)}" for at in range(len(values))]
    heads = {**{label: label.capitalize() if label != "gpu" else "GPU" for label in labels},
             **{column: head for column, (head, _, _) in zip(columns, values)}}
    one["transformations"] = ([{"id": "merge", "options": {}}] if len(values) > 1 else []) + [{
        "id": "organize",
        "options": {"excludeByName": {"Time": True}, "renameByName": heads,
                    "indexByName": {name: at for at, name in enumerate([*labels, *columns])}},
    }]
    one["fieldConfig"]["overrides"] = [
        {"matcher": {"id": "byName", "options": head}, "properties": [{"id": "unit", "value": unit}]}
        for head, _, unit in values if unit != PLAIN]
    return one


# ---- dashboards ------------------------------------------------------------------------------------------------------


def laid_out(rows):
    """The panels of all rows with their places and ids."""
    out, y = [], 0
    for title, panels in rows:
        out.append({"type": "row", "title": title, "collapsed": False, "panels": [],
                    "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}})
        x, y, height = 0, y + 1, 0
        for one in panels:
            place = one["gridPos"]
            if x + place["w"] > COLUMNS:
                x, y, height = 0, y + height, 0
            place.update({"x": x, "y": y})
            x, height = x + place["w"], max(height, place["h"])
            out.append(one)
        y += height
    for at, one in enumerate(out, 1):
        one["id"] = at
    return out


def variable(name, label, says, metric, many):
    """A variable with the values that a label of a metric has. many: several, and all by default."""
    text = f"label_values({metric}, {name})"
    return {
        "name": name, "label": label, "description": says, "type": "query", "datasource": DATASOURCE,
        "definition": text, "query": {"query": text, "refId": "values"}, "refresh": 2, "regex": "", "sort": 1, "hide": 0,
        "multi": many, "includeAll": many, "options": [], "skipUrlSync": False,
        **({"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if many else {"current": {}}),
    }


def dashboard(name, says, variables, rows):
    """A whole dashboard; its uid stays, so that links to it go on working."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "regex": "",
              "refresh": 1, "hide": 0, "multi": False, "includeAll": False, "options": [], "current": {},
              "skipUrlSync": False}
    here = {"builtIn": 1, "datasource": {"type": "grafana", "uid": "-- Grafana --"}, "enable": True, "hide": True,
            "iconColor": "rgba(0, 211, 255, 1)", "name": "Annotations & Alerts", "type": "dashboard"}
    others = {"asDropdown": False, "icon": "external link", "includeVars": False, "keepTime": True, "tags": ["milligpu"],
              "targetBlank": False, "title": "milligpu", "tooltip": "", "type": "dashboards", "url": ""}
    return {
        "uid": f"milligpu-{name}", "title": f"milligpu / {name}", "description": says, "tags": ["milligpu"],
        "editable": True, "graphTooltip": 1, "fiscalYearStartMonth": 0, "schemaVersion": 39, "version": 1, "id": None,
        "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "timepicker": {}, "timezone": "browser", "weekStart": "",
        "annotations": {"list": [here]}, "links": [others], "templating": {"list": [source, *variables]},
        "panels": laid_out(rows),
    }


# ---- what the panels ask ---------------------------------------------------------------------------------------------


def in_gpus(expression):
    """Thousandths as GPUs."""
    return f"{expression} / 1000"


def rate(series, *by):
    grouped = f"sum by ({', '.join(by)})" if by else "sum"
    return f"{grouped}(rate({series}[$__rate_interval]))"


def quantile(part, histogram, *by):
    return f"histogram_quantile({part}, {rate(f'{histogram}_bucket', *by, 'le')})"


def of_milligpud(series):
    """A series of any process, of milligpud's alone."""
    return f"{series} and on (job, instance) milligpu_build_info"


def cluster():
    def of_model(name):
        return f'milligpu_{name}_milli{{model=~"$model"}}'

    def by_model(name):
        return f"sum by (model)({of_model(name)})"

    allocated, free, closed, total = (f"sum({of_model(name)})" for name in ("allocated", "free", "closed", "total"))
    sick = 'milligpu_unhealthy_gpus{model=~"$model"}'
    now = [
        stat("GPUs", "All GPUs that milligpud knows.", in_gpus(total)),
        stat("Allocated", "Part of all GPUs that pods and reservations hold.", f"{allocated} / {total}", PART, decimals=0),
        stat("Free", "GPUs that new shares can take, added up.", in_gpus(free)),
        stat("Closed", "GPUs that no pod holds and new shares cannot take; the row Sick and closed has the reasons.",
             in_gpus(closed), steps=[(None, GOOD), (0.001, WARN)]),
        stat("Waiting pods", "Pods that were refused or offered nodes, and are not bound.", "sum(milligpu_waiting_pods)"),
        stat("Oldest wait", "For how long the pod that has waited longest has waited.",
             "max(milligpu_waiting_oldest_seconds)", SECONDS, steps=[(None, GOOD), (1800, WARN)]),
        stat("Sick GPUs", "GPUs that their nodes report unhealthy.", f"sum({sick})", steps=FROM_ONE_WARN),
        stat("Nodes without a vouching agent", "Nodes with GPUs that take no new shares until their agent is Ready.",
             'sum(milligpu_drift{kind="not_vouched"})', steps=FROM_ONE_WARN),
    ]
    who = [
        graph("GPUs by namespace", "What the ten largest namespaces hold, in GPUs; those beyond the first hundred "
              "are counted together, as other.",
              (f"topk(10, {in_gpus('sum by (namespace)(milligpu_namespace_milli)')} > 0)", "{{namespace}}"), stacked=True),
        bars("The largest namespaces", "What each of the fifteen largest namespaces holds now, in GPUs.",
             f"topk(15, {in_gpus('sum by (namespace)(milligpu_namespace_milli)')} > 0)", "{{namespace}}"),
        graph("Allocated and used", "What pods hold and, where agents report usage, what they use of it, in GPUs.",
              (in_gpus(allocated), "allocated"), (in_gpus(f"sum({of_model('measured')})"), "used")),
    ]
    what_is_free = [
        graph("Every GPU", "All GPUs, split into allocated, free and closed.", (in_gpus(allocated), "allocated"),
              (in_gpus(free), "free"), (in_gpus(closed), "closed"), stacked=True),
        graph("Allocated by model", "Part of each model's GPUs that pods hold.",
              (f"{by_model('allocated')} / {by_model('total')}", "{{model}}"), unit=PART, high=1),
        table("By model", "GPUs of each model now; the largest share is in thousandths, as a pod requests it.", ["model"],
              ("GPUs", in_gpus(by_model("total")), PLAIN), ("Allocated", in_gpus(by_model("allocated")), PLAIN),
              ("Free", in_gpus(by_model("free")), PLAIN), ("Closed", in_gpus(by_model("closed")), PLAIN),
              ("Largest share", f"max by (model)({of_model('largest_free')})", PLAIN), width=8),
    ]
    fragmentation = [
        graph("Free, and of no use", "Part of the free GPUs that pods like those of this cluster cannot use.",
              (f"{by_model('fragment')} / ({by_model('free')} > 0)", "{{model}}"), unit=PART, high=1),
        graph("Largest share that fits", "Thousandths that fit on one GPU now: a pod that asks for more of one GPU waits.",
              (f"max by (model)({of_model('largest_free')})", "{{model}}")),
        graph("Waiting although there is room", "For how long a pod has waited whose request the free thousandths of its "
              "models add up to; above half an hour, an alert fires.",
              ("max(milligpu_waiting_with_room_seconds)", "longest"), unit=SECONDS, steps=[(None, GOOD), (1800, WARN)]),
    ]
    waits = [
        graph("Waiting pods by reason", "Pods that are not bound, by the reason that is nearest to fitting.",
              ("sum by (reason)(milligpu_waiting_pods) > 0", "{{reason}}"), stacked=True),
        bars("Oldest wait by reason", "For how long the oldest pod of each reason has waited.",
             "max by (reason)(milligpu_waiting_oldest_seconds) > 0", "{{reason}}", SECONDS),
        graph("Refusals by reason", "Refusals per second; a pod that waits is refused again and again.",
              (rate("milligpu_refusals_total", "reason"), "{{reason}}"), unit=EVENTS),
    ]
    out_of_order = [
        graph("Closed by reason", "GPUs that no pod holds and new shares cannot take, by reason.",
              (f"{in_gpus('sum by (reason)(' + of_model('closed') + ')')} > 0", "{{reason}}"), stacked=True),
        graph("Sick GPUs by model", "GPUs that their nodes report unhealthy.", (f"sum by (model)({sick})", "{{model}}")),
        graph("Drift by kind", "Disagreements between ledger and cluster; the runbook of MilligpuDrift has a line for each "
              "kind.", ("sum by (kind)(milligpu_drift) > 0", "{{kind}}")),
    ]
    by_node = "sum by (node)(milligpu_node_%s_milli)"
    nodes = [
        table("Nodes", "GPUs of each node now; needs the page /metrics/nodes.", ["node"],
              ("Allocated", in_gpus(by_node % "allocated"), PLAIN), ("Free", in_gpus(by_node % "free"), PLAIN),
              ("Closed", in_gpus(by_node % "closed"), PLAIN), width=8, by="Free"),
        table("Closed nodes", "What is closed on which node, and why, in GPUs; needs the page /metrics/nodes.",
              ["node", "reason"], ("Closed", f"{in_gpus('sum by (node, reason)(milligpu_node_closed_milli)')} > 0", PLAIN),
              width=8),
        graph("Nodes by what is free", "Nodes on which at least so much is free, in all GPUs together; needs the page "
              "/metrics/nodes.", *((f"count({by_node % 'free'} >= {milli}) or vector(0)", f"{milli / 1000:g} GPUs")
                                   for milli in (100, 1000, 4000, 8000))),
    ]

    def of_gpu(name, matcher=""):
        return f"max by (node, gpu)(milligpu_node_gpu_{name}{matcher})"

    gpus = [
        table("GPUs that are not healthy", "What the agents report of GPUs that are not healthy.", ["node", "gpu", "health"],
              ("Reported", 'max by (node, gpu, health)(milligpu_node_gpu_health{health!="healthy"}) == 1', PLAIN), width=8),
        table("XIDs of the last day", "Errors that the driver reported in the last 24 hours: of GPUs, which close them, and "
              "of applications, which do not.", ["node", "gpu"],
              ("Critical", "sum by (node, gpu)(increase(milligpu_node_gpu_xids_total[1d])) > 0", PLAIN),
              ("Application", "sum by (node, gpu)(increase(milligpu_node_gpu_application_xids_total[1d])) > 0", PLAIN),
              width=8),
        table("Memory errors", "Errors of GPU memory that could not be corrected, since the driver was loaded.",
              ["node", "gpu"], ("Uncorrected", of_gpu("ecc_errors_total", '{kind="uncorrected"}') + " > 0", PLAIN), width=8),
        graph("Hottest GPUs", "Temperatures of the ten hottest GPUs.",
              (f"topk(10, {of_gpu('temperature_celsius')})", "{{node}} {{gpu}}"), unit=CELSIUS),
        graph("Power by node", "Power that the GPUs of a node draw.",
              ("sum by (node)(milligpu_node_gpu_power_watts)", "{{node}}"), unit=WATTS),
        graph("Slowed down and used from outside", "GPUs that hardware slows down, and GPUs with processes of no container.",
              ("sum(milligpu_node_gpu_throttled)", "slowed down"), ("sum(milligpu_node_gpu_outside)", "used from outside")),
    ]
    return dashboard("cluster", "Who uses which GPUs, what is free, what waits and why, what is sick or closed.",
                     [variable("model", "Model", "Models of GPUs", "milligpu_total_milli", many=True)],
                     [("Now", now), ("Who uses what", who), ("What is free", what_is_free), ("Fragmentation", fragmentation),
                      ("What waits, and why", waits), ("Sick and closed", out_of_order), ("Nodes", nodes),
                      ("GPUs, as the agents see them", gpus)])


def tenant():
    def container(name):
        return f'milligpu_node_container_{name}{{namespace="$namespace", pod=~"$pod"}}'

    held = 'sum(milligpu_namespace_milli{namespace="$namespace"})'
    labels = ["pod", "container", "node", "gpu"]

    def by_container(expression):
        return f"max by ({', '.join(labels)})({expression})"

    now = [
        stat("Held", "GPUs that the pods and reservations of the namespace hold.", in_gpus(held), width=4),
        stat("Part of all", "Part of what all namespaces hold.", f"{held} / sum(milligpu_allocated_milli)", PART, decimals=0,
             width=4),
        stat("Shares", "Shares of GPUs that containers have, as the agents see them.",
             f"count({container('granted_milli')})", width=4),
        stat("Used", "GPUs that these containers used at the last reading.", in_gpus(f"sum({container('used_milli')})"),
             decimals=2, width=4),
        stat("Used of granted", "Part that these containers used of their shares, where the driver tells.",
             f"sum({container('used_milli')}) / sum({container('granted_milli')} and {container('used_milli')})", PART,
             decimals=0, width=4),
        stat("Over their memory", "Shares whose container uses more memory than it was granted.",
             f"sum({container('over')})", steps=FROM_ONE_WARN, width=4),
    ]
    time = [
        graph("Held", "What the namespace holds, in GPUs.", (in_gpus(held), "held")),
        graph("Granted and used", "What the containers were granted and what they use, in GPUs.",
              (in_gpus(f"sum({container('granted_milli')})"), "granted"),
              (in_gpus(f"sum({container('used_milli')})"), "used")),
        graph("Used by pod", "What the ten busiest pods use, in GPUs.",
              (f"topk(10, {in_gpus('sum by (pod)(' + container('used_milli') + ')')})", "{{pod}}"), stacked=True),
    ]
    memory = [
        graph("GPU memory", "Memory that the containers were granted and that they use.",
              (f"sum({container('granted_mib')}) * {MIB}", "granted"), (f"sum({container('used_mib')}) * {MIB}", "used"),
              unit=BYTES),
        graph("GPU memory by pod", "Memory that the ten largest pods use.",
              (f"topk(10, sum by (pod)({container('used_mib')}) * {MIB})", "{{pod}}"), unit=BYTES),
        graph("Memory used of granted", "Part of its memory that each share uses; above 1 the container is over its share.",
              (f"{by_container(container('used_mib'))} / {by_container(container('granted_mib'))}",
               "{{pod}} {{container}} {{gpu}}"), unit=PART),
    ]
    shares = [
        table("Shares", "Each share now: thousandths of the GPU and memory, granted and used.", labels,
              ("Milli granted", by_container(container("granted_milli")), PLAIN),
              ("Milli used", by_container(container("used_milli")), PLAIN),
              ("Memory granted", f"{by_container(container('granted_mib'))} * {MIB}", BYTES),
              ("Memory used", f"{by_container(container('used_mib'))} * {MIB}", BYTES),
              ("Over", by_container(container("over")), PLAIN)),
        table("Idle for an hour", "Shares that used less than 1 % of a GPU at every reading of the last hour, and what they "
              "hold in thousandths.", labels,
              ("Milli held", f"{by_container(container('granted_milli'))} and "
               f"{by_container('max_over_time(' + container('used_milli') + '[1h])')} < 10", PLAIN)),
    ]
    fits = [
        bars("Largest share that would fit", "The most thousandths of one GPU that a pod can get now, by model.",
             "max by (model)(milligpu_largest_free_milli)", "{{model}}"),
        bars("Free GPUs", "What is free in the cluster, by model.", in_gpus("sum by (model)(milligpu_free_milli)"),
             "{{model}}"),
        graph("What waits in the cluster", "Waiting pods of all namespaces, by reason; `milligpuctl pod NAMESPACE/POD` says "
              "why one waits.", ("sum by (reason)(milligpu_waiting_pods) > 0", "{{reason}}"), stacked=True),
    ]
    return dashboard("tenant", "What one namespace holds and uses, and what would fit now.",
                     [variable("namespace", "Namespace", "Namespaces that hold shares", "milligpu_namespace_milli", many=False),
                      variable("pod", "Pod", "Pods of the namespace",
                               'milligpu_node_container_granted_milli{namespace="$namespace"}', many=True)],
                     [("Now", now), ("Time", time), ("Memory", memory), ("Shares", shares), ("What would fit now", fits)])


def service():
    def since(series):
        return f"time() - max({series} > 0)"

    calls = "milligpu_webhook_requests_total"
    failed = rate(calls + '{outcome="error"}', "verb")
    now = [
        stat("Ready", "Whether kube-scheduler is answered from a complete ledger.", "max(milligpu_ready)",
             words=[("1", "ready", GOOD), ("0", "not ready", BAD)]),
        stat("Safe mode", "Whether granting has stopped because the ledger cannot be trusted.", "max(milligpu_safe_mode)",
             words=[("0", "off", GOOD), ("1", "on", BAD)]),
        stat("Version", "Version and commit of milligpud.", "max by (version, commit)(milligpu_build_info)",
             name="{{version}} {{commit}}"),
        stat("Policy", "The policy that decides.", "max by (policy)(milligpu_policy_info)", name="{{policy}}"),
        stat("Policy document", "Whether the policy document could be read; if not, the last good one decides.",
             "max(milligpu_policy_reload_failed)", words=[("0", "read", GOOD), ("1", "broken", BAD)]),
        stat("Running for", "Time since milligpud started.",
             f"time() - max({of_milligpud('process_start_time_seconds')})", SECONDS),
        stat("Last verification", "Time since the ledger was last verified while milligpud ran.",
             since("milligpu_verification_timestamp_seconds"), SECONDS, none="none yet"),
        stat("Last backup", "Time since the last backup through this milligpud.", since("milligpu_backup_timestamp_seconds"),
             SECONDS, steps=[(None, GOOD), (7 * 86400, WARN)], none="none yet"),
    ]
    webhooks = [
        graph("Calls of kube-scheduler", "Calls per second by verb and outcome; refused is an answer, error is none.",
              (rate(calls, "verb", "outcome"), "{{verb}} {{outcome}}"), unit=CALLS),
        graph("Time of an answer", "Half of the calls, and all but one in a hundred, are answered in this time; "
              "kube-scheduler gives up after 5 s.",
              (quantile(0.5, "milligpu_webhook_seconds", "verb"), "{{verb}} half"),
              (quantile(0.99, "milligpu_webhook_seconds", "verb"), "{{verb}} 99 %"), unit=SECONDS),
        graph("Failed calls", "Part of the calls that were answered with an error; above 20 %, an alert fires.",
              (f"({failed} or 0 * {rate(calls, 'verb')}) / {rate(calls, 'verb')}", "{{verb}}"), unit=PART, high=1,
              steps=[(None, GOOD), (0.2, BAD)]),
    ]
    requests = "milligpu_api_requests_total"
    binds = [
        graph("Binds", "Bind calls per second by outcome.", (rate(calls + '{verb="bind"}', "outcome"), "{{outcome}}"),
              unit=CALLS),
        graph("Doubts", "Bindings without an answer (in doubt), Bindings and GETs that are sent again, and GETs that find out "
              "what became of a pod, per second.",
              (rate(requests + '{call="bind", code="0"}'), "no answer"), (rate("milligpu_api_retries_total"), "sent again"),
              (rate(requests + '{call=~"check|fetch"}', "call"), "{{call}}"), unit=EVENTS),
        graph("Calls to the API server", "Calls per second by kind and status code; 0 is no answer.",
              (rate(requests, "call", "code"), "{{call}} {{code}}"), unit=CALLS),
        graph("Calls on their way", "Bindings and GETs that wait and that are in flight, and how many may be in flight.",
              ("sum(milligpu_api_waiting)", "waiting"), ("sum(milligpu_api_in_flight)", "in flight"),
              ("sum(milligpu_api_window)", "window")),
        graph("Wake-ups", "Wake-ups of kube-scheduler per second by outcome.",
              (rate("milligpu_wake_ups_total", "outcome"), "{{outcome}}"), unit=EVENTS),
        graph("Events", "Events for pods per second by outcome.", (rate("milligpu_events_total", "outcome"), "{{outcome}}"),
              unit=EVENTS),
    ]
    commit = "milligpu_commit_seconds"
    batch = rate("milligpu_commit_batch_sum")
    writer = [
        graph("Queue of the writer", "Messages that wait for the writer.", ("max(milligpu_queue_depth)", "messages")),
        graph("Time of a COMMIT", "Half of the COMMITs, and all but one in a hundred, take this time.",
              (quantile(0.5, commit), "half"), (quantile(0.99, commit), "99 %"), unit=SECONDS),
        graph("COMMITs", "COMMITs and failed COMMITs per second, and commands in one COMMIT.",
              (rate(f"{commit}_count"), "COMMITs"), (rate("milligpu_commit_failures_total"), "failed"),
              (f"{batch} / ({rate('milligpu_commit_batch_count')} > 0)", "commands in one")),
        graph("Size of the ledger", "What counts against the limit, copies beside the ledger, and the limit.",
              ('sum by (of)(milligpu_ledger_bytes{of=~"used|wal|copies"})', "{{of}}"),
              ("max(milligpu_ledger_max_bytes)", "limit"), unit=BYTES),
        graph("Free space of the volume", "What the volume of the ledger has left; below 64 MiB, an alert fires.",
              ('min(milligpu_ledger_bytes{of="volume_free"})', "free"), unit=BYTES, steps=[(None, BAD), (64 * MIB, GOOD)]),
        graph("Snapshots", "Snapshots that were published, per second.", (rate("milligpu_generation"), "snapshots"),
              unit=EVENTS),
    ]
    watch = [
        graph("Age of the watches", "Time since the API server last answered on a watch; a quiet one is restarted after "
              "90 s, and above 180 s an alert fires.",
              ("max by (resource)(milligpu_watch_age_seconds)", "{{resource}}"), unit=SECONDS,
              steps=[(None, GOOD), (180, WARN)]),
        graph("Restarts of watches", "Watches that were restarted, per second.",
              (rate("milligpu_watch_restarts_total", "resource"), "{{resource}}"), unit=EVENTS),
        graph("Unreadable objects", "Objects of which something could not be read, per second; they are counted all the same.",
              (rate("milligpu_unreadable_objects_total", "resource"), "{{resource}}"), unit=EVENTS),
    ]
    tables = "milligpu_table_bytes"
    process = [
        graph("Processor", "Processor time per second.",
              (f"sum({of_milligpud('rate(process_cpu_seconds_total[$__rate_interval])')})", "cores")),
        graph("Memory", "Memory of milligpud in RAM, and the tables in it that tenants can fill.",
              (f"max({of_milligpud('process_resident_memory_bytes')})", "resident"), (f"sum({tables})", "tables"), unit=BYTES),
        graph("Open files", "Files and connections that are open.",
              (f"max({of_milligpud('process_open_fds')})", "open"), ("sum(milligpu_streams)", "streams of events")),
        graph("Refused and dropped", "Requests refused before a handler, by status, and connections closed early, by cause, "
              "per second.", (rate("milligpu_http_refused_total", "status"), "{{status}}"),
              (rate("milligpu_http_dropped_total", "port", "cause"), "{{port}} {{cause}}"), unit=EVENTS),
        table("Certificates", "Time until the certificate of each port ends.", ["port"],
              ("Ends in", "min by (port)(milligpu_certificate_expiry_timestamp_seconds) - time()", SECONDS), width=8),
        graph("Log", "Log lines that were left out, per second: more than 100 a minute of one message.",
              (rate("milligpu_log_suppressed_total"), "left out"), unit=EVENTS),
    ]
    agents = [
        table("Agents that are not ready", "Conditions of /readyz that do not hold, by node.", ["node", "condition"],
              ("Holds", "min by (node, condition)(milligpu_node_ready) == 0", PLAIN), width=8),
        graph("Agents", "Agents that Prometheus reads, that are ready and that the runtime asks, and nodes that report usage.",
              ("count(milligpu_node_connected)", "agents"),
              ("count(min by (node)(milligpu_node_ready) == 1) or vector(0)", "ready"),
              ("sum(milligpu_node_connected)", "connected"), ("max(milligpu_reporting_nodes)", "report usage")),
        graph("Containers", "Containers per second by what the agents decided.",
              (rate("milligpu_node_containers_total", "outcome"), "{{outcome}}"), unit=EVENTS),
        graph("Reports of usage", "Reports per second, by what milligpud made of them.",
              (rate("milligpu_reports_total", "outcome"), "{{outcome}}"), unit=EVENTS),
        graph("Refused and running past the agent", "Containers per second that were refused at the last look, and containers "
              "that did not pass the agent.",
              (rate('milligpu_node_validations_total{outcome="refused"}'), "refused at the last look"),
              (rate("milligpu_node_strangers_total"), "did not pass the agent"), unit=EVENTS),
        graph("Over their memory", "Times per second that a container used more memory than its share.",
              (rate("milligpu_node_over_memory_total", "outcome"), "{{outcome}}"), unit=EVENTS),
    ]
    return dashboard("service", "Whether milligpud answers, binds and writes, and whether its agents do.", [],
                     [("Now", now), ("Webhooks", webhooks), ("Binds and doubts", binds), ("Writer and ledger", writer),
                      ("Watch", watch), ("Process and ports", process), ("Agents", agents)])


# ---- files -----------------------------------------------------------------------------------------------------------


def files():
    return {f"{name}.json": json.dumps(made, indent=2, ensure_ascii=False) + "\n"
            for name, made in (("cluster", cluster()), ("tenant", tenant()), ("service", service()))}


def text_at(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def check():
    differ = [name for name, text in files().items() if text_at(os.path.join(FOLDER, name)) != text]
    for name in differ:
        print(f"dashboards.py: {name} in manifests/components/dashboards is not what would be written; "
              "run scripts/dashboards.py", file=sys.stderr)
    return 1 if differ else 0


def write():
    for name, text in files().items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def main():
    parser = argparse.ArgumentParser(prog="dashboards.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    sys.exit(check() if parser.parse_args().check else write())


if __name__ == "__main__":
    main()
