"""milligpuctl convert: the examples of docs/migrate.md, as they stand there, and the bounds of its input."""

import re
import shlex

import harness

BLOCK = re.compile(r"```(yaml|stderr)(?: (\S+))?\n(.*?)```\n|^    \$ (milligpuctl convert [^\n]*)$", re.S | re.M)
POD = "kind: Pod\nspec: {containers: [{resources: {limits: {nvidia.com/gpumem: 1024}}}]}\n"


def examples():
    """Each: the name of its file, the file, the command, its output, what it says."""
    found = []
    for kind, name, text, command in BLOCK.findall((harness.SOURCE / "docs/migrate.md").read_text()):
        if name:
            found.append({"file": name, "before": text, "said": ""})
        elif command:
            found[-1]["command"] = command
        else:
            found[-1]["said" if kind == "stderr" else "after"] = text
    return found


class Migrate(harness.Case):
    def setUp(self):
        self.home = self.scratch()

    def convert(self, *words, status=0, stdin=None):
        done = harness.run("convert", *words, cwd=self.home, input=stdin)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_examples__of_the_page_convert(self):
        pages = examples()
        self.assertEqual(len(pages), 3)
        for page in pages:
            (self.home / page["file"]).write_text(page["before"])
            words = shlex.split(page["command"])[2:]
            done = self.convert(*words, status=1 if "no counterpart" in page["said"] else 0)
            self.assertEqual(done.stdout, page["after"])
            self.assertEqual(done.stderr, page["said"])
            self.assertEqual((self.home / page["file"]).read_text(), page["before"])
            (self.home / page["file"]).write_text(page["after"])
            self.assertEqual(self.convert(*words, status=done.returncode).stdout, page["after"])

    def test_inputs__are_joined_as_documents(self):
        """Also standard input, which is read as well if no file is named."""
        (self.home / "a").write_text(POD.rstrip("\n"))
        (self.home / "b").write_text("---\n" + POD)
        (self.home / "c").write_text("")
        after = POD.replace("nvidia.com/gpumem: 1024", "nvidia.com/vgpu: 250")
        out = self.convert("--gpu-memory", "4096", "a", "b", "c", "-", stdin=POD).stdout
        self.assertEqual(out, f"{after}---\n{after}---\n{after}")
        self.assertEqual(self.convert("--gpu-memory=4096", stdin=POD).stdout, after)

    def test_unreadable_input__writes_nothing(self):
        (self.home / "a").write_text(POD)
        done = self.convert("a", "missing", status=1)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr, "milligpuctl: missing: No such file or directory\n")
        self.assertIn("Is a directory", self.convert(".", status=1).stderr)

    def test_input__over_10_mib_is_refused(self):
        """All inputs together; the largest that is allowed is converted."""
        limit = 10 * 1024 * 1024
        pods = "---\n" + POD
        text = pods * (limit // len(pods))
        text += "#" * (limit - len(text) - 1) + "\n"
        after = text.replace("nvidia.com/gpumem: 1024", "nvidia.com/vgpu: 250")
        self.assertEqual(self.convert("--gpu-memory", "4096", stdin=text).stdout, after)
        (self.home / "a").write_text("#")
        done = self.convert("a", "-", status=1, stdin=text)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr, "milligpuctl: standard input: the input is larger than 10 MiB\n")

    def test_large_documents__finish(self):
        """One of 10 MiB, or of 1 MiB under a sanitizer, of each shape whose cost might not be linear."""
        part = 10 if harness.is_sanitized() else 1
        for text in ("kind: X\n" + "".join(f"k{i}: 1\n" for i in range(900000 // part)),
                     "kind: X\nspec:\n  containers:\n" +
                     "  - {name: c, resources: {limits: {nvidia.com/gpumem: 1024}}}\n" * (150000 // part),
                     "kind: X\nspec: {containers: [" +
                     "{resources: {limits: {nvidia.com/gpumem: 1024}}}," * (190000 // part) + "]}\n",
                     "kind: List\nitems: [" + POD.replace("\n", ",").replace("kind: Pod,", "{kind: Pod, ")[:-1] + "}"
                     + ",{kind: A, spec: {containers: [{}]}}" * (250000 // part) + "]\n"):
            self.assertLess(len(text), 10 * 1024 * 1024)
            out = self.convert("--gpu-memory", "4096", stdin=text).stdout
            self.assertEqual(out.count("nvidia.com/vgpu: 250"), text.count("nvidia.com/gpumem: 1024"))


if __name__ == "__main__":
    harness.main(side_by_side=True)
