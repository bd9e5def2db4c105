"""The keys that sign allocations: published, replaced on an operator's word, kept while a pod needs them."""

import base64
import hashlib
import os
import pathlib
import tempfile

import harness
from test_cluster import Cluster
from test_ctl import run

KEYS = "/api/v1/namespaces/gpu/configmaps"
ONE = KEYS + "/milligpu-keys"

# It notes its words, and does to the API server what kubectl would.
KUBECTL = """#!/usr/bin/env python3
import json, sys, urllib.request
words = sys.argv[1:]
open({said!r}, "w").write("\\n".join(words))
if words[0] == "patch":
    body = json.loads(words[-1])
else:
    body = {{"metadata": {{"annotations": dict([words[5].split("=")])}}}}
request = urllib.request.Request({url!r} + "/api/v1/namespaces/" + words[4] + "/configmaps/" + words[2], method="PATCH",
    data=json.dumps(body).encode(),
    headers={{"Content-Type": "application/merge-patch+json"}})
print(urllib.request.urlopen(request).status)
"""


class Keys(Cluster):
    def setUp(self):
        self.api = self.serve()
        self.daemon = self.open(self.api, "--key-wait-s", "2")
        self.signer()

    @property
    def list_file(self):
        return self.daemon.home / "ledger.db.key.keys"

    def shown(self):
        return self.daemon.get("/api/v1/keys")

    def states(self):
        return [key["state"] for key in self.shown()["items"]]

    def signer(self):
        """The id of the key that signs, once there is one."""
        self.daemon.wait(lambda: self.states()[0] == "signing", "a key that signs")
        return self.shown()["items"][0]["id"]

    def other_than(self, old):
        """The id of the key that comes after it; on a slow machine it signs already."""
        self.daemon.wait(lambda: len(self.states()) == 2, "a next key")
        return next(key["id"] for key in self.shown()["items"] if key["id"] != old)

    def published(self):
        code, keys = self.api.request("GET", ONE)
        return sorted(keys["data"]) if code == 200 else []

    def want_replaced(self, key):
        code, _ = self.api.request("PATCH", ONE, {"metadata": {"annotations": {"milligpu.io/replace-key": key}}})
        self.assertEqual(code, 200)

    def signed_by(self, name):
        return self.api.pod(name)["metadata"]["annotations"]["milligpu.io/signature"].split(":")[1]

    def test_replaced_key__stays_until_its_last_pod_ends(self):
        old = self.signer()
        self.daemon.schedule(harness.pod("before", 100))
        self.want_replaced(old)
        new = self.other_than(old)
        self.daemon.wait(lambda: self.published() == sorted([old, new]), "both to be published")
        self.daemon.schedule(harness.pod("meanwhile", 100))
        by_old = 1 + (self.signed_by("meanwhile") == old)
        self.daemon.wait(lambda: self.signer() == new, "the next key to sign")
        self.daemon.schedule(harness.pod("after", 100))
        self.assertEqual([self.signed_by(name) for name in ("before", "after")], [old, new])
        self.daemon.wait(lambda: [key["pods"] for key in self.shown()["items"]] == [3 - by_old, by_old],
                         "pods by their keys")
        doctor = self.daemon.doctor("signing")
        self.assertIn(f"1 former key stays for {by_old} pod", doctor["text"])
        # A restart, and somebody deletes the ConfigMap: the keys that pods need come back.
        self.daemon.kill()
        self.api.request("DELETE", ONE)
        self.daemon.start()
        self.daemon.wait(lambda: self.published() == sorted([old, new]), "both to be published again")
        self.assertEqual(self.signer(), new)
        for name in ("before", "meanwhile"):
            self.api.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
        self.daemon.wait(lambda: self.published() == [new], "the key of before to be taken away", 30)
        self.daemon.wait(lambda: self.states() == ["signing"], "it to be forgotten, too")

    def ctl_with_kubectl(self):
        """milligpuctl, and the file that has the words of its last kubectl."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        said = pathlib.Path(folder.name) / "said"
        kubectl = pathlib.Path(folder.name) / "kubectl"
        kubectl.write_text(KUBECTL.format(said=str(said), url=self.api.url))
        kubectl.chmod(0o755)

        def ctl(*words, status=0):
            done = run("--port-file", self.daemon.home / "ports", *words,
                       env={"PATH": f"{folder.name}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
            return done

        return ctl, said

    def replace(self):
        """The ids of the key of before and of the one that signs now."""
        old = self.signer()
        self.want_replaced(old)
        self.daemon.wait(lambda: self.signer() != old, "another key to sign")
        return old, self.signer()

    def check(self):
        return self.daemon.doctor("signing")

    def pods_of(self, key):
        return {item["id"]: item["pods"] for item in self.shown()["items"]}.get(key)

    def test_revoked_key__goes_at_once(self):
        ctl, said = self.ctl_with_kubectl()
        signing = self.signer()
        self.assertIn("run milligpuctl replace-key first", ctl("revoke-key", signing, "--yes", status=1).stderr)
        self.assertIn("no key 0123456789abcdef", ctl("revoke-key", "0123456789abcdef", "--yes", status=1).stderr)
        self.daemon.schedule(harness.pod("a", 100))
        self.daemon.schedule(harness.pod("b", 100))
        old, new = self.replace()
        self.daemon.wait(lambda: self.pods_of(old) == 2, "both pods to be counted")
        shown = ctl("revoke-key", old).stdout
        self.assertIn(f"key {old}: up to 2 running pods will not restart containers without it", shown)
        self.assertIn("add --yes", shown)
        dry = ctl("revoke-key", old, "--dry-run")
        self.assertTrue(dry.stdout.startswith("kubectl patch configmap milligpu-keys --namespace gpu"), dry.stdout)
        self.assertIn("2 running pods", dry.stderr)
        self.assertFalse(said.exists())
        self.assertEqual(self.published(), sorted([old, new]))
        self.assertIn(f"key {old} is revoked", ctl("revoke-key", old, "--yes").stdout)
        self.daemon.wait(lambda: self.states() == ["signing"], "the key to be forgotten")
        self.daemon.wait(lambda: self.published() == [new], "it to be gone")
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual((self.signer(), self.published()), (new, [new]))

    def test_unknown_key__is_shown_and_revoked(self):
        ctl, _ = self.ctl_with_kubectl()
        self.daemon.schedule(harness.pod("before", 100))
        old = self.signer()
        self.daemon.kill()
        for path in self.daemon.home.glob("*.key*"):
            path.unlink()
        self.daemon.start()
        new = self.signer()
        self.daemon.wait(lambda: self.states() == ["signing", "other"], "the lost key")
        self.assertEqual((self.shown()["items"][1]["id"], self.pods_of(old)), (old, 1))
        self.assertRegex(ctl("keys").stdout, rf"\n{old} +other +yes +1 ")
        self.assertEqual(self.check()["status"], "ok", self.check())
        self.api.request("DELETE", "/api/v1/namespaces/default/pods/before?gracePeriodSeconds=0")
        self.daemon.wait(lambda: self.check()["status"] == "warning", "doctor to warn")
        self.assertIn(f"keys that no running pod needs: {old}", self.check()["text"])
        self.assertIn("0 running pods", ctl("revoke-key", old, "--yes").stdout)
        self.daemon.wait(lambda: self.states() == ["signing"], "it to be gone")
        self.assertEqual(self.published(), [new])
        self.assertEqual(self.check()["status"], "ok")

    def test_doctor__warns_before_the_keyring_is_full(self):
        new = self.signer()
        for listed, status in ((11, "ok"), (12, "warning")):
            self.daemon.kill()
            self.api.request("DELETE", ONE)  # else keys of the round before are others
            lines = [line for line in self.list_file.read_text().splitlines() if line.startswith("signing")]
            for _ in range(listed):
                key = os.urandom(32)
                lines.append(f"retiring {hashlib.sha256(key).hexdigest()[:16]} {base64.b64encode(key).decode()} 1")
            self.list_file.write_text("\n".join(lines) + "\n")
            self.daemon.start()
            self.daemon.wait(lambda: len(self.published()) >= listed + 1, "all keys to be published")
            self.daemon.wait(lambda: "not published yet" not in self.check()["text"], "milligpud to know that")
            check = self.check()
            self.assertEqual((self.signer(), check["status"]), (new, status), check)
        self.assertIn("13 of 16 keys are in use", check["text"])
        self.assertIn("milligpuctl revoke-key", check["fix"])

    def test_milligpuctl__shows_and_replaces_keys(self):
        old = self.signer()
        ctl, said = self.ctl_with_kubectl()
        self.assertRegex(ctl("keys").stdout, rf"^KEY +STATE +PUBLISHED +PODS +SINCE\n{old} +signing +yes +0 ")
        words = ["annotate", "configmap", "milligpu-keys", "--namespace", "gpu", f"milligpu.io/replace-key={old}",
                 "--overwrite"]
        self.assertEqual(ctl("replace-key", "--dry-run").stdout.split(), ["kubectl", *words])
        self.assertFalse(said.exists())
        self.assertIn(f"key {old} is to be replaced", ctl("replace-key").stdout)
        self.assertEqual(said.read_text().split("\n"), words)
        self.daemon.wait(lambda: len(self.states()) == 2, "a next key")
        if self.states()[1] == "next":
            self.assertIn("does not sign yet", ctl("replace-key", status=1).stderr)
        self.daemon.wait(lambda: self.signer() != old, "another key to sign")


if __name__ == "__main__":
    harness.main()
