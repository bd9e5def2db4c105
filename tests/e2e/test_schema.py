"""What /openapi.json says about requests is what milligpud does: values from each schema, from a fixed seed."""

import http.client
import json
import os
import random
import re
import unittest
import urllib.parse

import harness

SEED = int(os.environ.get("SCHEMA_SEED", "1"))
ROUNDS = 12  # random values of each kind for each parameter
PROBLEM = "application/problem+json"
KEYWORDS = {"type", "minLength", "maxLength", "pattern", "enum", "minimum", "maximum", "format", "default",
            "description"}
ALPHABET = "".join(map(chr, range(0x20, 0x7f))) + "\n\t\x01\x7f\xe4\u20ac"
TIMES = ("2026-01-02T14:05:00Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
         "9999-12-31T23:59:59.999999999Z", "2024-02-29t01:02:03z", "2026-01-02T14:05:00.5+02:00",
         "2016-12-31T23:59:60Z")
NO_TIMES = ("2026-01-02", "yesterday", "2026-13-02T14:05:00Z", "2025-02-29T14:05:00Z", "2026-01-02T14:05:00",
            "2026-01-02 14:05:00Z", "2026-01-02T24:00:00Z", "2026-01-02T14:05:00Z ", "0", "-1", "+", "Z", "é")


def allows(schema, value):
    """Does the schema allow this value of a parameter? Written here a second time, with other tools than milligpud's."""
    if schema["type"] == "integer":
        return bool(re.fullmatch("0|[1-9][0-9]{0,18}", value)) and schema["minimum"] <= int(value) <= schema["maximum"]
    if "enum" in schema:
        return value in schema["enum"]
    if not schema.get("minLength", 0) <= len(value) <= schema["maxLength"]:
        return False
    if schema.get("format") == "date-time":
        return value in TIMES
    return bool(re.search(schema["pattern"].replace("$", r"\Z"), value))


def grow(chance, pattern):
    """A text that matches the pattern, of the few forms that routes.def uses: sets, groups, |, * and +."""
    at = 0

    def alternatives():
        nonlocal at
        found = [sequence()]
        while at < len(pattern) and pattern[at] == "|":
            at += 1
            found.append(sequence())
        return lambda: chance.choice(found)()

    def sequence():
        parts = []
        while at < len(pattern) and pattern[at] not in "|)":
            parts.append(repeated(one()))
        return lambda: "".join(part() for part in parts)

    def one():
        nonlocal at
        first, at = pattern[at], at + 1
        if first == "(":
            inner = alternatives()
            at += 1
            return inner
        if first == "[":
            end = pattern.index("]", at)
            letters = [c for c in map(chr, range(0x20, 0x7f)) if re.fullmatch("[" + pattern[at:end] + "]", c)]
            at = end + 1
            return lambda: chance.choice(letters)
        return (lambda: "") if first in "^$" else (lambda: first)

    def repeated(part):
        nonlocal at
        mark = pattern[at] if at < len(pattern) else ""
        if mark not in ("*", "+", "?"):
            return part
        at += 1
        least, most = {"*": (0, 6), "+": (1, 6), "?": (0, 1)}[mark]
        return lambda: "".join(part() for _ in range(chance.randint(least, most)))

    return alternatives()()


def good(chance, schema):
    """Values that the schema allows, its bounds among them."""
    if schema["type"] == "integer":
        low, high = schema["minimum"], schema["maximum"]
        return [str(low), str(high)] + [str(chance.randint(low, high)) for _ in range(ROUNDS)]
    if "enum" in schema:
        return list(schema["enum"])
    if "format" in schema:
        return list(TIMES)
    found = [grow(chance, schema["pattern"]) for _ in range(ROUNDS)]
    found += [letter * schema["maxLength"] for letter in "a3"] + [letter * schema.get("minLength", 0) for letter in "a3"]
    return [value for value in found if allows(schema, value)]


def bad(chance, schema):
    """Values that the schema forbids: each rule broken alone, noise, and good values with one character changed."""
    found = ["", " ", "\t", "a b", "-", ".", "..", "A", "%", "a\n", "é", "\u20ac", "'", "null", "1" * 5000]
    found += ["0", "-1", "01", "+1", "1.0", "1e2", "0x1", str(2 ** 64), str(2 ** 32 + 1)]
    if schema["type"] == "integer":
        found += [str(schema["minimum"] - 1), str(schema["maximum"] + 1)]
    if "format" in schema:
        found += NO_TIMES
    if "maxLength" in schema:
        found += [letter * (schema["maxLength"] + more) for letter in "a3" for more in (1, 2)]
    found += [word.upper() for word in schema.get("enum", [])] + [word + "x" for word in schema.get("enum", [])]
    found += ["".join(chance.choices(ALPHABET, k=chance.randint(1, 40))) for _ in range(ROUNDS)]
    for value in good(chance, schema)[:ROUNDS]:
        at = chance.randrange(len(value) + 1)
        found.append(value[:at] + chance.choice(ALPHABET) + value[at:])
    # A date in another form may be a good one, which this test does not know.
    return [value for value in found if not allows(schema, value) and
            ("format" not in schema or value in NO_TIMES or not re.match("[0-9]{4}-", value))]


class Schema(harness.Story):
    """Every route of the description, with and without what it takes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, milli in (("web-0", 300), ("web-1", 2000), ("web-2", 100000)):
            cls.daemon.schedule(harness.pod(name, milli))
        cls.api = cls.daemon.get("/openapi.json")

    def setUp(self):
        self.chance = random.Random(SEED)

    def operations(self):
        for path, methods in self.api["paths"].items():
            for method, operation in methods.items():
                yield path, method.upper(), operation

    @staticmethod
    def parameters(operation, where):
        return [one for one in operation["parameters"] if one["in"] == where]

    def target(self, path, operation, places=(), query=()):
        """The path with its places filled, and what the route wants at least: history wants to know of what."""
        values = {one["name"]: "a1" for one in self.parameters(operation, "path")} | dict(places)
        for name, value in values.items():
            path = path.replace("{%s}" % name, urllib.parse.quote(value, safe=""))
        query = list(query)
        if path == "/api/v1/history" and not {"gpu", "pod"} & {name for name, _ in query}:
            query.append(("gpu", "GPU-1"))
        return path + ("?" + urllib.parse.urlencode(query) if query else "")

    def values(self, choose):
        """(method, operation, parameter, value, target) for each value that choose() gives of each parameter."""
        for path, method, operation in self.operations():
            for one in self.parameters(operation, "query"):
                for value in choose(self.chance, one["schema"]):
                    yield method, operation, one, value, self.target(path, operation, query=[(one["name"], value)])
            for one in self.parameters(operation, "path"):
                for value in choose(self.chance, one["schema"]):
                    yield method, operation, one, value, self.target(path, operation, places=[(one["name"], value)])

    def request(self, method, target, body):
        """Like the daemon's own, but of a stream, which has no end, it reads the head only."""
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port["admin"], timeout=harness.PATIENCE)
        try:
            connection.request(method, target, body, {"Content-Type": "application/json"} if body is not None else {})
            answer = connection.getresponse()
            streams = answer.headers.get("Content-Type") == "text/event-stream"
            return answer.status, b"" if streams else answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def ask(self, method, target, operation, body=None):
        """The answer, which must be one that the description has; a status beyond the listed ones is not."""
        status, bytes_, headers = self.request(method, target, body)
        said = f"SCHEMA_SEED={SEED}: {method} {target[:300]} -> {status} {bytes_[:300]}"
        self.assertNotEqual(status, 500, said)
        declared = operation["responses"].get(str(status))
        self.assertIsNotNone(declared, said)
        kind = headers.get("Content-Type", "").split(";")[0]
        content = declared.get("content", {})
        self.assertEqual([kind] if kind else [], list(content), said)
        if kind in (PROBLEM, "application/json"):
            self.fits(content[kind]["schema"], json.loads(bytes_), said)
        if status == 400:
            self.assertEqual(json.loads(bytes_)["status"], 400, said)
        return status, bytes_, said

    def fits(self, schema, value, said, where="answer"):
        """The answer has what its schema says, and nothing else."""
        while "$ref" in schema:
            schema = self.api["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
        self.assertIs(type(value), kinds[schema["type"]], f"{where}: {said}")
        if "enum" in schema:
            self.assertIn(value, schema["enum"], f"{where}: {said}")
        if schema.get("format") == "date-time":
            self.assertRegex(value, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$", f"{where}: {said}")
        if schema["type"] == "integer":
            self.assertGreaterEqual(value, 0, f"{where}: {said}")
        for item in value if schema["type"] == "array" else ():
            self.fits(schema["items"], item, said, where + "[]")
        if schema["type"] == "object" and "properties" in schema:
            self.assertLessEqual(set(schema.get("required", ())), set(value), f"{where}: {said}")
            self.assertLessEqual(set(value), set(schema["properties"]), f"{where}: {said}")
            for key, member in value.items():
                self.fits(schema["properties"][key], member, said, f"{where}.{key}")

    def test_answers__match_their_description(self):
        """With pods that are bound, bound by others, waiting, not asked about yet, and gone."""
        cluster = json.loads(harness.DEMO.read_text())
        cluster["items"] += [harness.running("stray", 200, "t4-0", uid="uid-stray"), harness.pod("lonely", 3000, uid="uid-lonely")]
        cluster["items"][-1]["metadata"]["creationTimestamp"] = "2026-01-02T03:00:00Z"
        daemon = self.keep(harness.Daemon(cluster, ledger="ledger.db"))
        for name, milli in ("web-0", 300), ("past", 250), ("big", 100000):
            daemon.schedule(harness.pod(name, milli))
        gpu = daemon.view("past")["allocation"]["charges"][0]["gpu"]
        daemon.admin("DELETE", "/api/v1/standalone/pods/default/past")
        daemon.wait(lambda: daemon.get("/api/v1/pods/default/past")["phase"] == "Ended", "the end of a pod")
        for name, paths in {
                "Summary": ["summary"], "NodeList": ["nodes"], "Node": ["nodes/t4-0"], "UsageList": ["usage"],
                "ObjectList": ["standalone/nodes", "standalone/pods"],
                "AllocationList": ["allocations", "allocations?state=released"],
                "Pod": [f"pods/default/{name}" for name in ("web-0", "big", "past", "stray", "lonely")],
                "WaitingList": ["waiting", "waiting?state=unasked"], "UsagePastList": ["usage/past"],
                "HistoryList": [f"history?gpu={gpu}", "history?pod=default/past"], "DefragPlan": ["defrag"],
                "DriftList": ["drift"], "Doctor": ["doctor"], "Policy": ["policy"], "SettingList": ["settings"]}.items():
            for path in paths:
                answer = daemon.get("/api/v1/" + path)
                self.fits({"$ref": "/" + name}, answer, path)
                self.assertNotEqual(answer.get("items"), [], path)
        _, daemon = self.pair()
        self.fits({"$ref": "/KeyList"}, daemon.get("/api/v1/keys"), "keys")
        self.assertNotEqual(daemon.get("/api/v1/keys")["items"], [])

    def test_parameters__all_have_a_schema_and_their_errors(self):
        for path, _, operation in self.operations():
            for one in self.parameters(operation, "query") + self.parameters(operation, "path"):
                schema = one["schema"]
                self.assertLessEqual(set(schema), KEYWORDS, (path, one["name"]))
                if schema["type"] == "integer":
                    self.assertTrue({"minimum", "maximum"} <= set(schema), (path, one["name"]))
                elif "enum" not in schema:
                    self.assertIn("maxLength", schema, (path, one["name"]))
                    self.assertTrue({"pattern", "format"} & set(schema), (path, one["name"]))
                self.assertGreater(len(good(self.chance, schema)), 1, (path, one["name"]))
                self.assertGreater(len(bad(self.chance, schema)), 2, (path, one["name"]))

    def test_allowed_values__are_accepted(self):
        for method, operation, one, _, target in self.values(good):
            if method == "GET" and not target.startswith("/api/v1/backup"):
                status, _, said = self.ask(method, target, operation)
                if one["in"] == "query":
                    self.assertNotEqual(status, 400, said)
                else:
                    self.assertIn(status, (200, 404), said)

    def test_forbidden_values__are_400_and_name_the_parameter(self):
        for method, operation, one, value, target in self.values(bad):
            if method == "POST" or one["in"] == "path" and (not value or "/" in value):
                continue  # another path
            status, body, said = self.ask(method, target, operation)
            self.assertEqual(status, 400, said)
            self.assertIn(one["name"] + " is ", json.loads(body)["detail"], said)

    def test_nul__is_400_everywhere(self):
        for path, method, operation in self.operations():
            for one in self.parameters(operation, "query") + [{"name": "unheard"}]:
                for value in ("%00", "a%00", "%00a"):
                    status, _, said = self.ask(
                        method, self.target(path, operation).split("?")[0] + f"?{one['name']}={value}", operation)
                    self.assertEqual(status, 400, said)
            for one in self.parameters(operation, "path"):
                target = self.target(path, operation, places=[(one["name"], "NUL")]).replace("NUL", "a%00b")
                self.assertEqual(self.ask(method, target, operation)[0], 400, target)

    def test_unknown_parameter__is_400_and_named(self):
        for path, method, operation in self.operations():
            known = {one["name"] for one in self.parameters(operation, "query")}
            for name in {"limt", "LIMIT", "limit ", "verbose", "continue", "x" * 3000, "\x01", "é", ""} - known:
                target = self.target(path, operation, query=[(name, "1")])
                status, body, said = self.ask(method, target, operation, "{}" if method == "POST" else None)
                self.assertEqual(status, 400, said)
                self.assertIn("unknown parameter", json.loads(body)["detail"], said)

    def test_repeated_parameter__is_400_and_named(self):
        for path, method, operation in self.operations():
            for one in self.parameters(operation, "query"):
                value = good(self.chance, one["schema"])[0]
                target = self.target(path, operation, query=[(one["name"], value)] * 2)
                status, body, said = self.ask(method, target, operation)
                self.assertEqual(status, 400, said)
                self.assertIn(one["name"] + " is given twice", json.loads(body)["detail"], said)

    def test_valid_parameters__are_accepted_together(self):
        for path, method, operation in self.operations():
            several = self.parameters(operation, "query")
            if method != "GET" or len(several) < 2:
                continue
            for _ in range(ROUNDS):
                # Tokens belong to their list: the other tests have them.
                some = [one for one in self.chance.sample(several, self.chance.randint(2, len(several)))
                        if one["name"] != "continue"]
                if path == "/api/v1/history":
                    some = [one for one in some if one["name"] != "pod"]
                if path == "/api/v1/allocations":
                    some = [one for one in some if one["name"] not in ("model", "idleSince")]  # not with state=released
                query = [(one["name"], self.chance.choice(good(self.chance, one["schema"]))) for one in some]
                status, _, said = self.ask(method, self.target(path, operation, query=query), operation)
                self.assertEqual(status, 200, said)

    def test_body__is_refused_only_when_the_schema_forbids_it(self):
        operation = self.api["paths"]["/api/v1/standalone/pods"]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        shape = self.api["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        meta = shape["properties"]["metadata"]["properties"]
        self.assertEqual(set(shape["required"]), {"metadata", "spec"})
        spec = {"containers": [{"name": "c"}]}
        wrong = [{}, [], None, "", 1, {"metadata": {}}, {"spec": spec}, {"metadata": {"name": "a"}},
                 {"metadata": {"name": "a"}, "spec": {}}, {"metadata": {"name": "a"}, "spec": {"containers": []}},
                 {"metadata": {"name": "a"}, "spec": {"containers": [{}]}}, {"metadata": {}, "spec": spec},
                 {"metadata": {"name": "a"}, "spec": {"containers": [{"name": ""}]}},
                 {"metadata": {"name": 1}, "spec": spec}, {"kind": "Node", "metadata": {"name": "a"}, "spec": spec}]
        wrong += [{"metadata": {"name": value}, "spec": spec} for value in bad(self.chance, meta["name"])]
        wrong += [{"metadata": {"name": "a", "namespace": value}, "spec": spec}
                  for value in bad(self.chance, meta["namespace"])]
        for body in wrong:
            status, _, said = self.ask("POST", "/api/v1/standalone/pods", operation, json.dumps(body))
            self.assertIn(status, (400, 422), (said, body))
        for name in ("a" * 254, "a" * 5000):
            self.assertEqual(self.ask("POST", "/api/v1/standalone/pods", operation,
                                      json.dumps({"metadata": {"name": name}, "spec": spec}))[0], 400)
        self.assertTrue(meta["namespace"]["nullable"])  # as for kube-apiserver, null is none
        made = {"metadata": {"name": "of-no-namespace", "namespace": None}, "spec": spec}
        self.assertEqual(self.ask("POST", "/api/v1/standalone/pods", operation, json.dumps(made))[0], 201)
        for number, name in enumerate(good(self.chance, meta["name"])[:ROUNDS]):
            namespace = "team-%d" % number
            body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
            status, _, said = self.ask("POST", "/api/v1/standalone/pods", operation, json.dumps(body))
            self.assertEqual(status, 201, said)
            target = f"/api/v1/standalone/pods/{namespace}/{name}"
            remove = self.api["paths"]["/api/v1/standalone/pods/{namespace}/{name}"]["delete"]
            self.assertEqual(self.ask("DELETE", target, remove)[0], 200, target)

    def test_cursor__in_an_answer_matches_the_parameter_schema(self):
        seen = 0
        for path, _, operation in self.operations():
            taken = [one["schema"] for one in self.parameters(operation, "query") if one["name"] == "continue"]
            if not taken:
                continue
            answer = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
            given = self.api["components"]["schemas"][answer]["properties"]["continue"]
            for word in ("pattern", "minLength", "maxLength"):
                self.assertEqual(given[word], taken[0][word], path)
            seen += 1
        self.assertGreater(seen, 5)

    def test_stream__is_not_described_as_a_string(self):
        content = self.api["paths"]["/api/v1/events"]["get"]["responses"]["200"]["content"]
        schema = content["text/event-stream"]["schema"]
        self.assertEqual(schema["format"], "binary")
        self.assertIn(schema["x-event"]["$ref"].rsplit("/", 1)[1], self.api["components"]["schemas"])

    def test_generated_types__have_distinct_names(self):
        """Generators name an enum or an object within a schema after both: NodeState for the state of Node."""
        schemas = self.api["components"]["schemas"]
        names = [name.lower() for name in schemas]

        def collect(name, schema):
            for key, value in schema.get("properties", {}).items():
                value = value.get("items", value)
                if "enum" in value or "properties" in value:
                    names.append((name + key).lower())
                    collect(name + key, value)

        for name, schema in schemas.items():
            collect(name, schema)
        self.assertEqual(sorted(names), sorted(set(names)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
