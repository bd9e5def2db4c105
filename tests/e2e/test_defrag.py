"""A plan of moves on the real daemon: what it says, and that following it in its order comes true."""

import json

import harness



class Defrag(harness.Case):
    def setUp(self):
        self.daemon = self.keep(harness.Daemon())

    def scatter(self):
        """Two shares on each of six GPUs; then one of them goes, a larger one here, a smaller one there."""
        for at in range(6):
            for part, milli in (("large", 500), ("small", 400)):
                self.daemon.schedule(harness.pod(f"{part}-{at}", milli), ["a100-0"])
        for at in range(6):
            self.release(f"{'large' if at % 2 else 'small'}-{at}")

    def release(self, name):
        self.daemon.admin("DELETE", "/api/v1/standalone/pods/default/" + name)
        self.daemon.wait(lambda: self.held(name) is None, f"{name} to be gone")

    def held(self, name):
        """The indexes of the GPUs that the pod holds, and its node; None: nothing."""
        for pod in self.daemon.get("/api/v1/allocations")["items"]:
            if pod["name"] == name:
                return pod["node"], [charge["index"] for charge in pod["charges"]]
        return None

    def plan(self, *words):
        done = self.daemon.ctl("defrag", "--plan", "-o", "json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_plan__yields_the_promised_gain(self):
        self.scatter()
        plan = self.plan("--min-gain", "1")
        self.assertGreater(len(plan["moves"]), 0)
        self.assertEqual(plan["fragmentMilli"], self.daemon.get("/api/v1/summary")["fragmentMilli"])
        self.assertEqual(plan["fragmentMilli"] - sum(move["gainMilli"] for move in plan["moves"]),
                         plan["fragmentMilliAfter"])
        for move in plan["moves"]:
            name, to = move["name"], move["to"]
            where = move["from"]["node"], [charge["index"] for charge in move["from"]["charges"]]
            self.assertEqual(self.held(name), where)
            milli = sum(charge["milli"] for charge in to["charges"])
            self.release(name)
            self.daemon.schedule(harness.pod(name + "-again", milli), [to["node"]])
            self.assertEqual(self.held(name + "-again"), (to["node"], [charge["index"] for charge in to["charges"]]))

    def test_table__shows_the_same_plan(self):
        self.scatter()
        plan = self.plan("--moves", "2", "--min-gain", "1")
        done = self.daemon.ctl("defrag", "--plan", "--moves", "2", "--min-gain", "1")
        rows = [line.split() for line in done.stdout.splitlines()[1:len(plan["moves"]) + 1]]
        self.assertEqual([row[:2] + row[-1:] for row in rows],
                         [[move["namespace"], move["name"], str(move["gainMilli"])] for move in plan["moves"]])
        self.assertIn(f"fragment: {plan['fragmentMilli']} of {plan['freeMilli']} free milli now", done.stdout)
        self.assertIn("Nothing was moved.", done.stdout)
        names = self.daemon.ctl("defrag", "--plan", "--moves", "2", "--min-gain", "1", "-o", "name").stdout.split()
        self.assertEqual(names, [f"pod/default/{move['name']}" for move in plan["moves"]])

    def test_defrag__never_acts_and_says_so(self):
        self.scatter()
        before = self.daemon.get("/api/v1/allocations")
        done = self.daemon.ctl("defrag")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("write defrag --plan", done.stderr)
        self.plan()
        self.assertEqual(self.daemon.get("/api/v1/allocations"), before)

    def test_idle_cluster__has_nothing_to_gain(self):
        done = self.daemon.ctl("defrag", "--plan")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stderr.startswith("no moves: "), done.stderr)


if __name__ == "__main__":
    harness.main()
