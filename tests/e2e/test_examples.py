"""Each file of examples/ says in its first comment what its pods get on the cluster of the demo: milligpuctl play agrees."""

import json
import re

import harness

EXAMPLES = sorted((harness.SOURCE / "examples").glob("*.yaml"))
BEFORE_THE_PODS = "# On the cluster of the demo:"


def promised(text):
    """{pod: its amounts on the GPUs, or "not created"}, as the first comment has it."""
    comment = text[:re.search(r"^[^#]", text, re.MULTILINE).start()].splitlines()
    at = comment.index(BEFORE_THE_PODS)
    assert at > 1 and comment[0].startswith("# ") and comment[at - 1] == "#", comment
    pods = dict(re.fullmatch(r"#   (\S+)  (\S.*)", line).groups() for line in comment[at + 1:])
    assert pods, comment
    return pods


def found(item):
    """The same for a pod that was played."""
    if item["outcome"] == "placed":
        return "+".join(re.findall(r"\d+:(\d+)", item["text"].split("GPU:milli")[1]))
    assert item["text"].startswith("not created: "), item
    return "not created"


class Examples(harness.Story):
    def play(self, file, space):
        done = self.daemon.ctl("play", file, "-n", space, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["items"], done.stderr

    def test_example_pods__get_the_share_of_their_comment(self):
        self.assertGreater(len(EXAMPLES), 10)
        for file in EXAMPLES:
            with self.subTest(file.name):
                items, said = self.play(file, file.stem)
                self.assertNotIn("not considered", said)
                names = [re.sub(r"-[0-9a-f]{8,10}(-\d+)$", r"\1", item["name"]) for item in items]
                self.assertEqual(len(set(names)), len(names))
                self.assertEqual({name: found(item) for name, item in zip(names, items) if item["outcome"] != "skipped"},
                                 promised(file.read_text()))

    def test_skipped_pods__request_no_gpu(self):
        items, _ = self.play(harness.SOURCE / "examples/ray.yaml", "skipped")
        self.assertEqual([item["name"] for item in items if item["outcome"] == "skipped"], ["ray-head-0"])

    def test_user_page__links_every_example(self):
        page = (harness.SOURCE / "docs/use.md").read_text()
        linked = set(re.findall(r"\]\(\.\./examples/([\w.-]+)\)", page))
        self.assertEqual(linked, {file.name for file in EXAMPLES})


if __name__ == "__main__":
    harness.main()
