"""milligpud runs by a policy document: its rules, their change while it runs, and what it says of them."""

import json
import os
import re
import signal
import unittest

import harness

HEAD = "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: binpack\n"
NIGHT = HEAD + """
rules:
  - {name: research, nodes: {pool: night}, namespaces: [ml-*], min: 500}
  - {name: night, nodes: {pool: night}, whole: true}
"""
STEPS = HEAD + """
rules:
  - {name: day, nodes: {pool: night}, step: 100}
"""
RESERVE = HEAD + """
rules:
  - {name: day, nodes: {pool: day}, reserve: 1}
  - {name: night, nodes: {pool: night}, reserve: 2}
"""
BROKEN = HEAD + "\nrules:\n  - {name: day, min: 0}\n"
WINDOW = HEAD + """
rules:
  - {name: berlin, when: Mon-Fri 08:00-20:00 Europe/Berlin, min: 100}
  - {name: rest, min: 200}
"""


def cluster():
    return harness.objects(harness.node("alpha", 4000, labels={"pool": "night"}),
                           harness.node("beta", 4000, labels={"pool": "day"}))


class Documents(harness.Case):
    def begin(self, text, ledger="ledger.db"):
        self.file = self.scratch() / "policy.yaml"
        self.write(text)
        self.daemon = self.keep(harness.Daemon(cluster(), "--policy", str(self.file), ledger=ledger))

    def write(self, text):
        """As kubelet replaces the files of a ConfigMap: another file behind the same name."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self.file)

    def reload(self):
        self.daemon.process.send_signal(signal.SIGHUP)

    def policy(self):
        return self.daemon.get("/api/v1/policy")

    def decides(self, *names):
        self.daemon.wait(lambda: [rule["name"] for rule in self.policy()["rules"]] == list(names), names)

    def refused(self, made, node="alpha"):
        answer = self.daemon.filter(made, [node])
        self.assertFalse(answer["NodeNames"], answer)
        return answer["FailedAndUnresolvableNodes"][node]

    def fits(self, made, node="alpha"):
        return self.daemon.filter(made, [node])["NodeNames"] == [node]

    def test_refusals__name_the_rule_of_namespace_and_node(self):
        self.begin(NIGHT)
        part = self.daemon.create(harness.pod("part", 300))
        self.assertEqual(self.refused(part), "policy rule 2 (night): only whole GPUs here")
        self.assertTrue(self.fits(part, "beta"))
        self.assertTrue(self.fits(self.daemon.create(harness.pod("whole", 1000))))
        research = self.daemon.create(harness.pod("part", 300, namespace="ml-a"))
        self.assertEqual(self.refused(research), "policy rule 1 (research): shares of at least 500 milli here")
        self.assertTrue(self.fits(self.daemon.create(harness.pod("half", 500, namespace="ml-a"))))
        self.assertIn("policy rule 2 (night)", self.daemon.bind(part, "alpha"))
        shown = self.daemon.view("part")
        self.assertIn("rule", json.dumps(shown))
        self.assertEqual(self.daemon.bind(part, "beta"), "")

    def test_doctor__names_the_rule_that_keeps_hosts(self):
        self.begin(RESERVE)
        one = self.daemon.create(harness.pod("one", 1000))
        self.assertEqual(self.refused(one), "no GPU with 1000 milli free")
        says = ["policy rule 2 (night): keeps 2 idle hosts for pods of several GPUs, and 1 is idle",
                "policy rule 1 (day): keeps 1 idle host for pods of several GPUs, and 1 is idle"]
        shown = self.daemon.view("one")
        self.assertEqual(sorted((reason["reason"], reason["nodes"], reason["text"]) for reason in shown["reasons"]),
                         sorted(("reserve", 1, text) for text in says))
        done = self.daemon.ctl("pod", "one")
        self.assertIn(says[0], done.stdout)
        # Never comes before later.
        model = self.daemon.create(harness.pod("model", 300, annotations={"milligpu.io/gpu-model": "H100"}))
        self.refused(model)
        shown = self.daemon.view("model")
        self.assertEqual([(reason["reason"], reason["nodes"]) for reason in shown["reasons"]], [("model", 2)])
        self.assertIn("never", shown)
        # Two containers with a GPU each are a pod of several.
        both = self.daemon.create(harness.pod("both", containers={"a": 1000, "b": 1000}))
        self.assertTrue(self.fits(both))
        self.assertEqual(self.daemon.bind(both, "alpha"), "")

    def test_sighup__reads_the_document_again(self):
        self.begin(NIGHT)
        part = self.daemon.create(harness.pod("part", 300))
        odd = self.daemon.create(harness.pod("odd", 250))
        self.refused(part)
        self.write(STEPS)
        self.reload()
        self.decides("day")
        self.assertTrue(self.fits(part))
        self.assertEqual(self.refused(odd), "policy rule 1 (day): shares in steps of 100 milli here")
        self.assertEqual(self.daemon.bind(part, "alpha"), "")

    def test_broken_document__leaves_the_old_one_in_force(self):
        self.begin(NIGHT)
        self.assertEqual(self.daemon.doctor("policy")["status"], "ok")
        part = self.daemon.create(harness.pod("part", 300))
        self.write(BROKEN)
        self.reload()
        self.daemon.wait(lambda: "failed" in self.policy(), "the failure")
        self.assertRegex(self.policy()["failed"]["text"], re.escape(str(self.file)) + r":6:\d+: rules\[0\].min: 0 is below")
        self.daemon.wait(lambda: "the old one stays in force" in self.daemon.logged(), "a line of the log")
        self.assertEqual(self.daemon.doctor("policy")["status"], "failed")
        self.assertEqual(self.daemon.metric("milligpu_policy_reload_failed"), ["milligpu_policy_reload_failed 1"])
        self.refused(part)
        self.write(STEPS)
        self.decides("day")  # found without a signal
        self.assertNotIn("failed", self.policy())
        self.assertEqual(self.daemon.doctor("policy")["status"], "ok")

    def test_reload__is_consistent_in_every_view(self):
        self.begin(NIGHT)
        self.reload()
        self.daemon.wait(lambda: "settings reloaded\n" in self.daemon.logged(), "the reload")
        self.write(BROKEN)
        self.reload()
        partly = "settings reloaded, except for what could not be read (above)"
        self.daemon.wait(lambda: partly in self.daemon.logged(), partly)
        log = self.daemon.logged()
        self.assertLess(log.index("the policy was not reloaded"), log.index(partly))
        self.assertEqual(log.count("settings reloaded\n"), 1)

    def test_unmatched_rule__is_reported(self):
        slip = HEAD + ("\nrules:\n  - {name: ok, nodes: {pool: night}, min: 100}\n"
                       "  - {name: slip, nodes: {pool: nigth}, models: [H200*], whole: true}\n")
        self.begin(NIGHT)
        self.write(slip)
        lines = ["rule 2 (slip), nodes: pool=nigth matches 0 nodes", "rule 2 (slip), models: H200* matches 0 nodes"]
        self.daemon.wait(lambda: all(line in self.daemon.logged() for line in lines), lines)
        found = self.daemon.doctor("rules")
        self.assertEqual((found["status"], found["text"]), ("warning", ";".join(lines)))
        self.assertNotIn("rule 1 (ok)", self.daemon.logged())
        self.write(NIGHT)
        self.decides("research", "night")
        self.assertIsNone(self.daemon.doctor("rules"))

    def test_missing_document__leaves_the_old_one_in_force(self):
        self.begin(NIGHT)
        self.file.unlink()
        self.daemon.wait(lambda: "failed" in self.policy(), "the failure")
        self.assertEqual(len(self.policy()["rules"]), 2)

    def test_time_zones__are_reloaded_inside_the_sandbox(self):
        self.begin(NIGHT)
        self.write(WINDOW)
        self.reload()
        self.decides("berlin", "rest")
        rule = self.policy()["rules"][0]
        self.assertEqual(rule["when"], "Mon-Fri 08:00-20:00 Europe/Berlin")
        self.assertRegex(rule["changesAt"], r"^\d{4}-\d\d-\d\dT\d\d:00:00.000Z$")
        self.assertEqual(self.policy()["changesAt"], rule["changesAt"])

    def test_journal_and_log__name_the_policy_in_force(self):
        self.begin(NIGHT)
        self.write(STEPS)
        self.reload()
        self.decides("day")
        self.assertEqual(self.daemon.logged().count("these rules decide from now on"), 2)
        self.daemon.kill()
        with harness.contextlib.closing(harness.sqlite3.connect(self.daemon.home / "ledger.db")) as ledger:
            rows = [json.loads(row[0]) for row in ledger.execute(
                "SELECT command FROM journal WHERE command LIKE '%\"kind\":\"policy\"%' ORDER BY seq")]
        self.assertEqual([row["policy"] for row in rows], [str(self.file)] * 2)
        self.assertEqual([row["holding"] for row in rows], [[1, 2], [1]])
        self.assertNotEqual(rows[0]["digest"], rows[1]["digest"])
        self.daemon.start()
        self.decides("day")

    def journal(self):
        """How often the journal says that other rules decide; the daemon may be running."""
        with harness.contextlib.closing(harness.sqlite3.connect(self.daemon.home / "ledger.db")) as ledger:
            return ledger.execute("SELECT count(*) FROM journal WHERE command LIKE '{\"kind\":\"policy\"%'").fetchone()[0]

    def kept(self):
        with harness.contextlib.closing(harness.sqlite3.connect(self.daemon.home / "ledger.db")) as ledger:
            return ledger.execute("SELECT name, document FROM policy").fetchall()

    def is_kept(self, text):
        self.daemon.wait(lambda: self.kept() == [(str(self.file), text.encode())], "the document in the ledger")

    def test_last_good_document__survives_a_restart(self):
        self.begin(NIGHT)
        self.write(STEPS)
        self.decides("day")
        self.is_kept(STEPS)
        for spoil in (lambda: self.write(BROKEN), self.file.unlink, lambda: self.file.write_bytes(b"\0"),
                      lambda: self.file.write_bytes(b""), lambda: self.file.write_bytes(b"#" * (1 << 20) + b"\n")):
            spoil()
            self.daemon.kill()
            self.daemon.start()
            self.decides("day")
            self.assertEqual(self.daemon.admin("GET", "/readyz")[0], 200)
            self.assertIn(str(self.file), self.policy()["failed"]["text"])
            self.assertEqual(self.daemon.doctor("policy")["status"], "failed")
            self.assertEqual(self.daemon.metric("milligpu_policy_reload_failed"), ["milligpu_policy_reload_failed 1"])
            self.assertIn(" error ", [line for line in self.daemon.logged().splitlines()
                                      if "which the ledger has kept" in line][-1])
            self.assertEqual(self.kept(), [(str(self.file), STEPS.encode())])
        odd = self.daemon.create(harness.pod("odd", 250))
        self.assertEqual(self.refused(odd), "policy rule 1 (day): shares in steps of 100 milli here")
        self.write(STEPS)  # as it was: found without a signal, and no other rules
        self.daemon.wait(lambda: "failed" not in self.policy(), "the repair")
        self.write(NIGHT)
        self.decides("research", "night")
        self.is_kept(NIGHT)

    def test_baseline__is_warned_of_at_each_load(self):
        old = STEPS.replace("policy: binpack", "policy: firstfit")
        warned = lambda: self.daemon.logged().count("firstfit is only a baseline of milligpuctl simulate")
        self.begin(STEPS)
        self.is_kept(STEPS)
        self.assertEqual(warned(), 0)
        self.write(old)
        self.reload()  # the same rules and the same order, by another name
        self.daemon.wait(lambda: warned() == 1, "the warning of the reload")
        self.daemon.kill()
        self.daemon.start()
        self.daemon.wait(lambda: warned() == 2, "the warning of the start")
        self.is_kept(old)
        self.write(BROKEN)
        self.daemon.kill()
        self.daemon.start()
        self.decides("day")
        self.daemon.wait(lambda: warned() == 3, "the warning of the document that the ledger has kept")

    def test_kept_document__is_forgotten_by_a_plain_policy(self):
        self.begin(NIGHT)
        self.is_kept(NIGHT)
        self.daemon.kill()
        named = self.daemon.flags.index("--policy") + 1
        self.daemon.flags[named] = "mixed"
        self.daemon.start()
        self.daemon.wait(lambda: self.kept() == [], "nothing kept")
        self.assertNotIn("failed", self.policy())
        self.assertEqual(self.daemon.doctor("policy")["status"], "ok")
        self.daemon.kill()
        self.write(BROKEN)
        self.does_not_start(self.daemon.home / "ledger.db")
        self.daemon.start()

    def does_not_start(self, ledger):
        done = harness.run("--standalone", harness.DEMO, "--policy", self.file, "--ledger", ledger, program="milligpud")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(f"policy: {self.file}:6:", done.stderr)

    def test_first_start__that_fails_leaves_no_ledger(self):
        self.begin(NIGHT)
        self.write(BROKEN)
        ledger = self.daemon.home / "another.db"
        self.does_not_start(ledger)
        self.assertFalse(ledger.exists())

    def test_touched_file__changes_nothing(self):
        self.begin(NIGHT)
        self.is_kept(NIGHT)
        before = self.journal()
        for count in (1, 2, 3):
            self.write(NIGHT)
            self.reload()
            self.daemon.wait(lambda n=count: self.daemon.logged().count("settings reloaded\n") == n, "the reload")
        self.assertEqual(self.daemon.logged().count("these rules decide from now on"), 1)
        self.assertEqual(self.journal(), before)
        self.write(STEPS)
        self.decides("day")
        self.assertEqual(self.journal(), before + 1)

    def test_milligpuctl__shows_the_rules_in_force(self):
        self.begin(NIGHT)
        done = self.daemon.ctl("policy")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("binpack", done.stdout)
        self.assertIn("only whole GPUs", done.stdout)
        self.assertIn("pool=night", done.stdout)
        self.assertIn(str(self.file), self.daemon.ctl("summary").stdout)
        self.assertEqual(self.daemon.metric("milligpu_policy_info"), ['milligpu_policy_info{policy="file"} 1'])
        self.assertEqual(self.daemon.metric("milligpu_policy_rules_holding"), ["milligpu_policy_rules_holding 2"])

    def test_ready_policy__needs_no_file(self):
        for word, name, order in (("mixed", "mixed", "rollout"), ("spread", "spread", "spread"), ("fgd", "rollout", "rollout")):
            daemon = self.keep(harness.Daemon(cluster(), "--policy", word))
            shown = daemon.get("/api/v1/policy")
            self.assertEqual((shown["name"], shown["policy"]), (name, order))
            self.assertEqual(daemon.get("/api/v1/summary")["policy"], name)
            self.assertEqual(daemon.logged().count("orders by rollout instead"), int(word == "fgd"))

    def test_unreadable_policy__fails_the_start(self):
        file = self.scratch() / "policy.yaml"
        file.write_text(BROKEN)
        for word, says in (("bestfit", 'there is no policy "bestfit"; there are'), (str(file), f"{file}:6:"),
                           (str(file) + ".yaml", f"{file}.yaml")):
            for flags in (["--check-config"], []):
                done = harness.run("--standalone", harness.DEMO, "--policy", word, *flags, program="milligpud")
                self.assertEqual(done.returncode, 2, done)
                self.assertIn("policy: ", done.stderr)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
