"""Everything at once: schedulers, a changing cluster, readers, reloads, an interrupted watch; then quiet.

The number of pods, not time, sets its length: MILLIGPU_LOAD_PODS for each of eight schedulers. With the thread
sanitizer, which stops the daemon at the first race, this is the race test.
"""

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import ssl
import threading
import time

import harness

SCHEDULERS = 8
READERS = 3
CUTS = (3, 10, 20)  # turns in which the watch ends; few, as each failure in a row delays the next list more
ALIVE = 3  # pods that each scheduler keeps running
AMOUNTS = (50, 100, 250, 300, 500, 1000)
MAY = {"/readyz": {200, 503}, "/api/v1/standalone/nodes": {404}, "/api/v1/standalone/pods": {404}, "/no/such/path": {404},
       "/api/v1/history": {200, 400}, "/api/v1/defrag": {200, 503}, "/api/v1/pods/default/s0-3": {200, 404}}


def pods_each():
    return int(os.environ.get("MILLIGPU_LOAD_PODS", "40" if harness.is_race_test() else "20"))


class Client:
    """One keep-alive connection, as kube-scheduler and browsers use it."""

    def __init__(self, port, tls=None):
        self.port = port
        self.tls = tls
        self.connection = None

    def ask(self, method, path, body=None):
        for last in (False, True):  # a connection may have been closed while it was idle
            if self.connection is None:
                self.connection = (http.client.HTTPSConnection("127.0.0.1", self.port, timeout=harness.PATIENCE, context=self.tls)
                                   if self.tls else http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.PATIENCE))
            try:
                self.connection.request(method, path, None if body is None else json.dumps(body),
                                        {"Content-Type": "application/json"})
                answer = self.connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                if last:
                    raise
        raise AssertionError("not reached")

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Load(harness.Case):
    def setUp(self):
        self.over = threading.Event()
        self.troubles = []
        self.success = {}  # {uid: node} of the pods that have not ended
        self.counts = {"bound": 0, "refused": 0, "reads": 0, "reloads": 0, "cuts": 0}
        self.lock = threading.Lock()
        self.api = self.keep(harness.Api())

    def open(self):
        home = self.home = self.api.home
        for name in ("server.crt", "server.key", "ca.crt"):
            shutil.copy(harness.certificates() / name, home / name)
        (home / "config.yaml").write_text("shortlist: 16\n")
        self.daemon = self.keep(harness.ClusterDaemon(
            self.api, "--config", str(home / "config.yaml"), "--webhook-cert", str(home / "server.crt"),
            "--webhook-key", str(home / "server.key"), "--webhook-client-ca", str(home / "ca.crt")))

    def tls(self):
        context = ssl.create_default_context(cafile=str(harness.certificates() / "ca.crt"))
        context.load_cert_chain(harness.certificates() / "client.crt", harness.certificates() / "client.key")
        return context

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    # --- schedulers ---

    def webhook(self, client, verb, body):
        status, text = client.ask("POST", "/scheduler/" + verb, body)
        self.assertEqual(status, 200, (verb, text[:300]))
        return json.loads(text)

    def try_to_place(self, client, made, draw):
        """One scheduling cycle; returns the node or None."""
        asked = {"Pod": made, "Nodes": None, "NodeNames": ["a100-0", "t4-0", "vm-0", "comes-and-goes", "no-such-node"]}
        fits = self.webhook(client, "filter", asked).get("NodeNames") or []
        if not fits:
            victims = {"t4-0": {"Pods": [], "NumPDBViolations": 0}}
            client.ask("POST", "/scheduler/preempt", {"Pod": made, "NodeNameToMetaVictims": victims})
            return None
        self.webhook(client, "prioritize", {**asked, "NodeNames": fits})
        node = draw.choice(fits)
        meta = made["metadata"]
        bind = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        if self.webhook(client, "bind", bind)["Error"] != "":
            return None
        if draw.random() < 0.1:
            self.assertEqual(self.webhook(client, "bind", bind)["Error"], "", "the answer was lost, say")
        return node

    def place(self, client, made, draw):
        for tried in range(8):
            node = self.try_to_place(client, made, draw)
            if node is not None:
                with self.lock:
                    self.success[made["metadata"]["uid"]] = node
                self.count("bound")
                return True
            time.sleep(0.01 * 2 ** tried)  # without a watch, ended pods free nothing until the next list
        self.count("refused")
        return False

    def end(self, made, draw):
        meta = made["metadata"]
        path = f"/api/v1/namespaces/default/pods/{meta['name']}"
        with self.lock:
            self.success.pop(meta["uid"], None)
        if draw.random() < 0.5:
            self.api.request("PATCH", path + "/status", {"status": {"phase": "Succeeded"}})
        else:
            self.api.request("DELETE", path + "?gracePeriodSeconds=30")
        self.api.request("DELETE", path + "?gracePeriodSeconds=0")

    def scheduler(self, number):
        draw = random.Random(number)
        client = Client(self.daemon.port["webhook"], self.tls())
        alive = []
        with contextlib.closing(client):
            for i in range(pods_each()):
                made = self.api.create(harness.pod(f"s{number}-{i}", draw.choice(AMOUNTS)))
                if self.place(client, made, draw):
                    alive.append(made)
                else:
                    self.end(made, draw)
                if len(alive) > ALIVE:
                    self.end(alive.pop(draw.randrange(len(alive))), draw)

    # --- meanwhile ---

    def node_comes(self):
        node = self.api.request("GET", "/api/v1/nodes/t4-0")[1]
        node["metadata"] = {"name": "comes-and-goes", "labels": node["metadata"]["labels"]}
        self.api.request("POST", "/api/v1/nodes", node)

    def nodes(self, turn):
        self.api.request("PATCH", "/api/v1/nodes/vm-0", {"metadata": {"annotations": {
            "milligpu.io/cordon": "all" if turn % 2 else None}}})
        if turn % 2:
            self.node_comes()
        else:
            self.api.request("DELETE", "/api/v1/nodes/comes-and-goes")
        time.sleep(0.05)

    def disturb(self, turn):
        """Reload settings and certificates; in the turns of CUTS end the watch, sometimes to force another list."""
        (self.home / "config.yaml").write_text(f"shortlist: {turn % 4 + 1}\nlog_level: {'debug' if turn % 2 else 'info'}\n")
        for name in ("server.crt", "server.key"):
            shutil.copy(harness.certificates() / name, self.home / (name + ".new"))
            (self.home / (name + ".new")).rename(self.home / name)
        self.daemon.process.send_signal(signal.SIGHUP)
        self.count("reloads")
        if turn in CUTS:
            if turn % 2:
                self.api.do("compact")
                self.api.fault("?watch", "status", number=410, times=2)
            self.api.do("release")
            self.count("cuts")
        time.sleep(0.1)

    def paths(self):
        described = json.loads(self.daemon.admin("GET", "/openapi.json")[1])["paths"]
        gets = [path for path, methods in described.items() if "get" in methods and
                "text/event-stream" not in methods["get"]["responses"]["200"]["content"]]  # which has no end
        filled = [path.replace("{namespace}", "default").replace("{name}", "t4-0" if "nodes" in path else "s0-3")
                  for path in gets]
        return filled + ["/api/v1/history?pod=default/s1-2", "/api/v1/history?gpu=t4-0/gpu-1", "/readyz?verbose",
                         "/api/v1/history?gpu=a100-0/gpu-0&at=2026-01-02T03:04:05Z", "/api/v1/allocations?state=released&limit=7",
                         "/api/v1/allocations?node=t4-0", "/api/v1/nodes?limit=1", "/no/such/path"]

    def reader(self, number):
        admin, probe = (Client(self.daemon.port[name]) for name in ("admin", "probe"))
        paths = self.paths()
        random.Random(number).shuffle(paths)
        with contextlib.closing(admin), contextlib.closing(probe):
            while not self.over.is_set():
                for path in paths:
                    status, body = admin.ask("GET", path)
                    self.assertIn(status, MAY.get(path.split("?")[0], {200}), (path, body[:300]))
                    self.count("reads")
                for path in ("/readyz", "/livez", "/metrics"):
                    self.assertIn(probe.ask("GET", path)[0], (200, 503))

    def again_and_again(self, what):
        turn = 0
        while not self.over.is_set():
            what(turn)
            turn += 1

    def guarded(self, what, *args):
        try:
            what(*args)
        except Exception as trouble:  # of any kind: the test reports it
            self.troubles.append((what.__name__, args, repr(trouble)))
            self.over.set()

    # --- the test ---

    def test_load__of_every_call_leaves_the_ledger_equal_to_the_cluster(self):
        self.open()
        begin = lambda *args: threading.Thread(target=self.guarded, args=args, daemon=True)
        meanwhile = [begin(self.reader, i) for i in range(READERS)]
        meanwhile += [begin(self.again_and_again, self.nodes), begin(self.again_and_again, self.disturb)]
        schedulers = [begin(self.scheduler, i) for i in range(SCHEDULERS)]
        for thread in meanwhile + schedulers:
            thread.start()
        for thread in schedulers:
            thread.join()
        self.over.set()
        for thread in meanwhile:
            thread.join()
        self.assertEqual(self.troubles, [], self.daemon.logged())
        self.quiet()
        print(json.dumps(self.counts), flush=True)

    def quiet(self):
        self.node_comes()
        self.api.request("PATCH", "/api/v1/nodes/vm-0", {"metadata": {"annotations": {"milligpu.io/cordon": None}}})
        self.daemon.await_ready()
        self.daemon.wait(lambda: not self.daemon.differences(), "agreement", 60)
        self.daemon.wait(lambda: not self.daemon.all("/api/v1/drift"), "the node that came", 60)
        self.daemon.check()
        held = {item["uid"]: item["node"] for item in self.daemon.all("/api/v1/allocations")}
        self.assertEqual(held, self.success, "what was answered is what is held")
        self.assertGreater(self.counts["bound"], SCHEDULERS * pods_each() // 2)
        self.assertEqual(self.daemon.stop(), 0, self.daemon.logged())
        log = (self.daemon.home / "log").read_text(errors="replace")
        for word in ("Sanitizer", "runtime error", "safe mode", "must:"):
            self.assertNotIn(word, log)


if __name__ == "__main__":
    harness.main()
