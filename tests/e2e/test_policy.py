"""Policy documents from outside: check-policy, the shipped schema, and what both say of the same documents."""

import json
import pathlib
import re
import unittest

import yaml

import harness

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
READY = sorted((TREE / "policy").glob("*.yaml"))
HEAD = "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: rollout\n"


def examples():
    """(what is said, document) for each of tests/policy/documents.txt; its top describes it."""
    for block in re.split(r"^## (?!whole$)", (TREE / "tests/policy/documents.txt").read_text(), flags=re.M)[1:]:
        says, body = block.split("\n", 1)
        yield says, body[len("## whole\n"):] if body.startswith("## whole\n") else HEAD + body


class Schema:
    """The part of JSON Schema that policy.schema.json uses; any other word is an error."""

    TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    SILENT = {"$schema", "$id", "$defs", "title", "description"}

    def __init__(self, root):
        self.root = root

    def accepts(self, value, schema=None):
        return all(getattr(self, "judge_" + word.lstrip("$"))(value, wanted, schema or self.root)
                   for word, wanted in (schema or self.root).items() if word not in self.SILENT)

    def is_a(self, value, kind):
        return isinstance(value, self.TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))

    def judge_ref(self, value, path, schema):
        self.assert_path(path)
        return self.accepts(value, self.root["$defs"][path[len("#/$defs/"):]])

    @staticmethod
    def assert_path(path):
        if not path.startswith("#/$defs/"):
            raise AssertionError(path)

    def judge_type(self, value, kinds, schema):
        return any(self.is_a(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))

    def judge_const(self, value, wanted, schema):
        return type(value) is type(wanted) and value == wanted

    def judge_enum(self, value, wanted, schema):
        return any(self.judge_const(value, item, schema) for item in wanted)

    def judge_oneOf(self, value, schemas, schema):
        return sum(self.accepts(value, item) for item in schemas) == 1

    def judge_anyOf(self, value, schemas, schema):
        return any(self.accepts(value, item) for item in schemas)

    def judge_required(self, value, names, schema):
        return not isinstance(value, dict) or all(name in value for name in names)

    def judge_properties(self, value, schemas, schema):
        return not isinstance(value, dict) or all(self.accepts(value[name], item) for name, item in schemas.items()
                                                  if name in value)

    def judge_additionalProperties(self, value, wanted, schema):
        others = [item for name, item in value.items() if name not in schema.get("properties", {})] \
            if isinstance(value, dict) else []
        return all(wanted is not False and self.accepts(item, wanted) for item in others)

    def judge_propertyNames(self, value, wanted, schema):
        return not isinstance(value, dict) or all(self.accepts(name, wanted) for name in value)

    def judge_items(self, value, wanted, schema):
        return not isinstance(value, list) or all(self.accepts(item, wanted) for item in value)

    def judge_uniqueItems(self, value, wanted, schema):
        return not isinstance(value, list) or len({json.dumps(item) for item in value}) == len(value)

    def judge_minItems(self, value, low, schema):
        return not isinstance(value, list) or len(value) >= low

    def judge_maxItems(self, value, high, schema):
        return not isinstance(value, list) or len(value) <= high

    def judge_minProperties(self, value, low, schema):
        return not isinstance(value, dict) or len(value) >= low

    def judge_maxProperties(self, value, high, schema):
        return not isinstance(value, dict) or len(value) <= high

    def judge_minLength(self, value, low, schema):
        return not isinstance(value, str) or len(value) >= low

    def judge_maxLength(self, value, high, schema):
        return not isinstance(value, str) or len(value) <= high

    def judge_pattern(self, value, pattern, schema):
        return not isinstance(value, str) or re.search(pattern, value) is not None

    def judge_minimum(self, value, low, schema):
        return not self.is_a(value, "number") or value >= low

    def judge_maximum(self, value, high, schema):
        return not self.is_a(value, "number") or value <= high


class Policies(harness.Case):
    def setUp(self):
        self.maxDiff = None
        self.home = self.scratch()

    def check(self, *words):
        return harness.run("check-policy", *words, cwd=self.home, env={"LC_ALL": "C"})

    def document(self, body, name="p.yaml"):
        (self.home / name).write_text(body)
        return self.check(name)

    def test_unmatched_rules__are_reported_by_the_cluster(self):
        body = HEAD + """rules:
  - {name: slip, nodes: {pool: traning}, whole: true}
  - {name: fine, namespaces: [a], models: [T4], min: 100}
  - {name: none, models: [H200*, A100], min: 100}
"""
        lines = ["rule 1 (slip), nodes: pool=traning matches 0 nodes", "rule 3 (none), models: H200* matches 0 nodes"]
        self.assertEqual(self.document(body).stderr, "")
        done = self.check("p.yaml", "--cluster", harness.DEMO)
        self.assertEqual((done.returncode, done.stderr.splitlines()), (0, lines))
        done = self.check("p.yaml", "--cluster", harness.DEMO, "-o", "json")
        self.assertEqual(json.loads(done.stdout)["warnings"], lines)
        done = self.check("p.yaml", "--cluster", "gone.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("gone.json", done.stderr)

    def test_examples__give_the_promised_answers(self):
        count = 0
        for says, body in examples():
            count += 1
            kind, _, text = says.partition(": ")
            done = self.document(body)
            with self.subTest(body):
                if kind.startswith("error"):
                    self.assertEqual((done.returncode, done.stdout, done.stderr),
                                     (1, "", f"milligpuctl: p.yaml:{text}\n"))
                else:
                    self.assertEqual((done.returncode, done.stderr), (0, f"p.yaml:{text}\n" if text else ""))
        self.assertGreater(count, 150)

    def test_schema__agrees_with_the_reader(self):
        schema = Schema(json.loads((TREE / "policy/policy.schema.json").read_text()))
        for path in READY:
            self.assertTrue(schema.accepts(yaml.safe_load(path.read_text())), path)
        for says, body in examples():
            try:
                documents = list(yaml.safe_load_all(body))
            except yaml.YAMLError:
                documents = None
            with self.subTest(body):
                if documents is None or len(documents) != 1:
                    self.assertTrue(says.startswith("error beyond the schema: "), says)
                else:
                    self.assertEqual(schema.accepts(documents[0]), not says.startswith("error: "), says)

    def test_ready_policies__are_those_of_the_tree(self):
        self.assertEqual([path.stem for path in READY], ["inference", "mixed", "training"])
        for path in READY:
            named = json.loads(self.check(path.stem, "-o", "json", "--at", "2026-01-02T03:04:05Z").stdout)
            read = json.loads(self.check(path, "-o", "json", "--at", "2026-01-02T03:04:05Z").stdout)
            self.assertEqual(named.pop("name"), path.stem)
            self.assertEqual(read.pop("name"), str(path))
            self.assertEqual(named, read)

    def test_bare_policy__is_accepted(self):
        done = self.check("spread")
        self.assertEqual((done.returncode, done.stdout), (0, """\
Policy:       spread (bare)
Order:        spread: emptiest GPUs, emptiest node
Seed:         0
Memory:       filter: gpu-memory says which GPUs do
Prices:       off: all models cost the same
"""))

    OWN = HEAD + """\
seed: 4
memory: raise
workload:
  - {gpus: 8, cpu: 64, memory: 512Gi, weight: 5, models: [H100*, A100*]}
  - {gpus: 2, milli: 500, weight: 10}
rules:
  - name: night
    when: Mon-Fri 20:00-08:00 Europe/Berlin
    nodes: {pool: training, disk: ssd*}
    namespaces: [ml-*, research]
    policy: spread
    whole: true
    reserve: 1
  - {sizes: [250, 500, 1000], min: 250, step: 50, models: [A100*], memory: filter, topology: nvlink}
"""

    def test_policy__is_shown(self):
        (self.home / "p.yaml").write_text(self.OWN)
        done = self.check("p.yaml", "--at", "2026-01-05T12:00:00Z")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(re.sub(r"digest [0-9a-f]{16}", "digest D", done.stdout), """\
Policy:       p.yaml (digest D)
Order:        rollout: least idle GPU once the workload has filled the node
Seed:         4
Memory:       raise: the share grows to what gpu-memory needs
Prices:       off: all models cost the same

shapes that are expected:
GPUS  MILLI  MODELS        CPU-MILLI  MEMORY-MIB  OF-1000-PODS
   8   1000  H100*, A100*      64000      524288             5
   2    500  -                     -           -            10

rules; of those that hold, the first that matches node and namespace counts:
RULE  NAME    NODES                     NAMESPACES      WHEN                               HOLDS                          SAYS
   1  night   pool=training, disk=ssd*  ml-*, research  Mon-Fri 20:00-08:00 Europe/Berlin  from 2026-01-05T19:00:00.000Z  \
orders by spread; only whole GPUs; keeps 1 idle host for pods of several GPUs
   2  rule 2  all                       all             always                             yes                            \
shares of at least 250 milli; shares in steps of 50 milli; 250, 500 or 1000 milli and nothing else; only models A100*; \
gpu-memory only filters; GPUs of a container linked by NVLink
""")

    def test_windows__are_shown_as_of_another_time(self):
        (self.home / "p.yaml").write_text(self.OWN)
        for at, holds, changes in (("2026-01-05T18:59:59Z", False, "2026-01-05T19:00:00Z"),
                                   ("2026-01-05T19:00:00Z", True, "2026-01-06T07:00:00Z"),
                                   ("2026-07-03T18:00:00Z", True, "2026-07-04T06:00:00Z"),
                                   ("2026-07-04T06:00:00Z", False, "2026-07-06T18:00:00Z")):
            rule = json.loads(self.check("p.yaml", "--at", at, "-o", "json").stdout)["rules"][0]
            self.assertEqual((rule["holds"], rule["changesAt"]), (holds, changes.replace("Z", ".000Z")), at)

    def test_policy_command__refuses_wrong_usage(self):
        self.assertEqual(self.check("mixed", "-o", "name").stdout, "policy/mixed\n")
        for status, says, *words in (
                (1, "none.yaml: ", "none.yaml"), (1, "there is no policy \"mix\"; there are inference, mixed, ", "mix"),
                (2, "--at is noon: ", "mixed", "--at", "noon"), (2, "check-policy", ), (2, "--sort-by", "mixed", "--sort-by", "X")):
            done = self.check(*words)
            self.assertEqual((done.returncode, done.stdout), (status, ""), words)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
