"""Every block of the pages is marked, known to a test, and names only commands that exist."""

import functools
import json
import os
import re
import shlex
import subprocess
import unittest

import harness
import pages

# How many blocks of each kind no test runs. A block that cannot be run needs a reason; one that can be run lowers these.
NOT_RUN = {"needs a GPU": 4, "needs a cloud": 9, "needs a registry": 4}
# Pictures made of letters.
DRAWINGS = {"README.md": 1, "docs/ARCHITECTURE.md": 2}

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
PLACES = ("scripts/", "tests/", "bench/", "docs/", "manifests/", "demo/", "policy/", "examples/", "charts/", "./", "include/", "src/")
PROGRAMS = {"milligpuctl": "milligpuctl", "milligpu": "milligpuctl", "milligpud": "milligpud", "milligpu-node": "milligpu-node"}


def findings(page, text):
    """What is wrong with the marks of one page."""
    reader = pages.Reader(page, text)
    choice = ", ".join(f"<!-- {mark} -->" for mark in pages.MARKS)
    for block in reader.blocks:
        if block.mark and block.mark not in pages.MARKS:
            yield f"{block}: {block.mark!r} is no mark; one of {choice}"
        elif block.mark and block.drawing:
            yield f"{block}: a drawing (```text) has no mark"
        elif not block.mark and not block.drawing:
            yield f"{block}: mark this block: one of {choice}"
    for line in reader.idle:
        yield f"{page}:{line}: this mark stands before no block"


class Marks(unittest.TestCase):
    def test_blocks__all_have_a_mark(self):
        self.assertEqual([one for page in pages.names() for one in findings(page, pages.text(page))], [])

    def test_mark_check__flags_wrong_samples(self):
        for text, at, word in (("    ls\n", 1, "mark this block"), ("x\n\n```sh\nls\n```\n", 4, "mark this block"),
                               ("<!-- run at night -->\n```\nls\n```\n", 3, "is no mark"),
                               ("<!-- run -->\nx\n\n    ls\n", 1, "before no block"),
                               ("<!-- run -->\n\n```\nls\n```\n", 1, "before no block"),
                               ("<!-- shown -->\n```text\n->\n```\n", 3, "has no mark"),
                               ("1. x\n\n       ls\n", 3, "mark this block"),
                               ("- x\n  - y\n\n        ls\n", 4, "mark this block")):
            with self.subTest(text):
                found = list(findings("a.md", text))
                self.assertTrue(any(one.startswith(f"a.md:{at}: ") and word in one for one in found), found)

    def test_mark_check__passes_right_samples(self):
        for text in ("<!-- run -->\n\n    ls\n", "<!-- shown -->\n```yaml\na: 1\n```\n", "```text\n->\n```\n",
                     "1. x\n\n   <!-- needs a GPU -->\n\n       ls\n\n   more\n", "- x\n\n    more of x\n", "a\n    b\n",
                     "<!-- run on a cluster -->\n\n    ls\n\n    ls\n"):
            with self.subTest(text):
                self.assertEqual(list(findings("a.md", text)), [])

    def test_block__is_read_without_the_indent_of_its_list(self):
        text = "# A *b* c\n\n1. x\n\n   <!-- run: w.yaml -->\n\n       a\n\n         b\n\nend\n\n<!-- shown -->\n```sh f\nc\n```\n"
        one, two = pages.Reader("a.md", text).blocks
        self.assertEqual((one.line, one.heading, one.mark, one.file, one.text), (7, "a-b-c", "run", "w.yaml", "a\n\n  b\n"))
        self.assertEqual((two.line, two.mark, two.language, two.file, two.text), (15, "shown", "sh", "f", "c\n"))

    def test_untested_blocks__are_counted(self):
        marks = [block.mark for page in pages.names() for block in pages.blocks(page)]
        for mark, count in NOT_RUN.items():
            found = marks.count(mark)
            self.assertEqual(found, count, f"{found} blocks say {mark!r} and not {count}: run the new one by a test, or, if "
                             "there are fewer, lower the number in NOT_RUN")

    def test_drawings__are_counted(self):
        """Otherwise a command could be called a drawing."""
        found = {page: sum(block.drawing for block in pages.blocks(page)) for page in pages.names()}
        self.assertEqual({page: count for page, count in found.items() if count}, DRAWINGS)


class Output(unittest.TestCase):
    """What is shown, compared with what comes out."""

    def test_comparison__ignores_values_that_vary(self):
        for shown, said in (("a  1.5m 10.0.0.1", "a 1.5m 10.0.0.1"), ("since 2026-01-01T00:00:00Z (3s)", "since 2027-02-03T04:05:06.7Z (4m)"),
                            ("v0.1.0 GPU-0a1b2c3d-4e5f", "0.2.1 GPU-ffffffff-0000"), ("at 127.0.0.1:1", "at 127.0.0.1:23456"),
                            ("a\n...\nd", "a\nb\nc\nd"), ("...\nd", "c\nd\n"), ("a\n...", "a\nb\nc"), ("a\n\nb", "a\nb\n"),
                            ("spread as many GPU hours", "spread 0.04 % more GPU hours")):
            with self.subTest(shown):
                self.assertIsNone(pages.agrees(shown, said))

    def test_comparison__names_differences(self):
        for shown, said, line in (("a 1", "a 2", "a 1"), ("a\nb", "a", "b"), ("a", "a\nb", "b"), ("a\n...\nd", "a\nb", "d"),
                                  ("...\na", "a\nb", "b"), ("placed", "refused", "placed"), ("a", "", "a")):
            with self.subTest(shown):
                self.assertEqual(pages.agrees(shown, said), line)

    def test_session__is_split_into_commands(self):
        session = pages.Block("p", 1, "", "run", "", "", "$ a\nx\ny\n$ b | c\n")
        self.assertEqual(pages.commands(session), [("a", "x\ny\n"), ("b | c", "")])
        self.assertEqual(pages.commands(pages.Block("p", 1, "", "run", "", "", "a\nb\n")), [("a\nb\n", None)])


@functools.cache
def said(*command):
    """What a program of ours, or a script of the tree, says of itself."""
    done = subprocess.run([str(word) for word in command] + ["--help"], capture_output=True, text=True, cwd=harness.SOURCE,
                          timeout=harness.PATIENCE)
    return done.stdout + done.stderr if done.returncode == 0 else ""


@functools.cache
def subcommands():
    listed = re.search(r"^commands:\n((?:  .*\n)+)", said(harness.BIN / "milligpuctl"), re.M)[1]
    return set(re.findall(r"^  (\S+)", listed, re.M))


def lacks(help_text, options):
    return [one for one in options if not re.search(re.escape(one) + r"(?![\w-])", help_text)]


def program_trouble(name, words):
    """What of a command line a program of ours does not know."""
    options = [option for word in words for option in OPTION.findall(word.split("=")[0])]
    help_text = said(harness.BIN / PROGRAMS[name])
    if PROGRAMS[name] == "milligpuctl":
        verbs = [word for word in words if not word.startswith("-")]
        if verbs and verbs[0] not in subcommands() and re.fullmatch(r"[a-z][a-z-]*", verbs[0]):
            return [f"{name} has no command {verbs[0]}"]
        if verbs and verbs[0] in subcommands():
            help_text = said(harness.BIN / "milligpuctl", verbs[0])
    return [f"{name} {' '.join(words[:1])} has no option {one}" for one in lacks(help_text, options)]


def path_trouble(word, words, folder):
    """A file of the tree, and, if it is a script, the options that it is given."""
    place = word.removeprefix("./")
    if re.search(r"[*{<]|(?<![A-Za-z])[A-Z]+(?![A-Za-z])", place):
        return []  # a pattern, or a word that stands for others
    here = next((root / place for root in (harness.SOURCE / folder, harness.SOURCE) if (root / place).exists()), None)
    if here is None:
        return [f"{word} does not exist"]
    options = [option for one in words for option in OPTION.findall(one.split("=")[0])]
    if not options or not here.is_file() or not os.access(here, os.X_OK):
        return []
    return [f"{word} has no option {one}" for one in lacks(said(here), options)]


@functools.cache
def presets(kind):
    return {one["name"] for one in json.loads((harness.SOURCE / "CMakePresets.json").read_text())[kind + "Presets"]}


def preset_trouble(words):
    """A preset of CMake's that is not there."""
    kind = "test" if words[0] == "ctest" else "build" if "--build" in words else "configure"
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--preset"]
    return [f"there is no {kind} preset {name}" for name in named if name not in presets(kind)]


def split(line):
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def trouble(line, folder=""):
    """What a line of shell names that does not exist; pipes and lists are looked at one by one."""
    found = []
    for part in re.split(r"\s(?:\||\|\||&&|;|&|--)\s|\s*[<>]\s*\S+|;\s", line):
        words = split(part)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words[:2] == ["kubectl", "milligpu"]:
            words.pop(0)
        if not words:
            continue
        if words[0] in PROGRAMS:
            found += program_trouble(words[0], words[1:])
        elif words[0].startswith(PLACES):
            found += path_trouble(words[0], words[1:], folder)
        elif words[0] in ("cmake", "ctest"):
            found += preset_trouble(words)
    return found


def inline(text):
    """(line, what stands between backticks) outside of blocks; not the files of other repositories, nor sentences."""
    text = re.sub(r"^( *)(```+).*?^\1\2", lambda match: "\n" * match[0].count("\n"), text, flags=re.M | re.S)
    for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
        if not match[1].endswith(": ...") and not re.search(r"[\w-]/[\w.-]+\s$", text[:match.start()]):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match[1].split())


class Words(unittest.TestCase):
    """Pages name no command, option or file that is not there."""

    def test_blocks__name_existing_things(self):
        found = []
        for page in pages.names(everything=True):
            for block in pages.blocks(page):
                if block.mark != "shown" and not block.drawing:
                    found += [f"{block}: {one}" for line in pages.words_of_shell(block.text)
                              for one in trouble(line, page.rpartition("/")[0])]
        self.assertEqual(found, [])

    def test_text__names_existing_things(self):
        found = []
        for page in pages.names(everything=True):
            if page == "CHANGELOG.md":
                continue  # it names what is gone
            for line, words in inline(pages.text(page)):
                if words.split()[0] in PROGRAMS or words.startswith((*PLACES, "kubectl milligpu", "cmake ", "ctest ")):
                    found += [f"{page}:{line}: {one}" for one in trouble(words, page.rpartition("/")[0])]
        self.assertEqual(found, [])

    def test_word_check__flags_wrong_samples(self):
        for line, word in (("milligpuctl tops", "no command tops"), ("kubectl milligpu top --colour", "no option --colour"),
                           ("milligpud --standalon x", "no option --standalon"), ("bench/none", "does not exist"),
                           ("A=b ./demo.sh --twice", "no option --twice"),
                           ("cmake --build --preset develop", "no build preset develop"), ("ctest --preset none -L x", "preset none"),
                           ("cat x | milligpuctl convert --to y -", "--to"),
                           ("kubectl exec x -- milligpu-node --forget GPU-a", "--forget")):
            with self.subTest(line):
                self.assertTrue(any(word in one for one in trouble(line)), trouble(line))

    def test_word_check__passes_right_samples(self):
        for line in ("milligpuctl pod NAMESPACE/NAME", "kubectl milligpu top -A --state=open", "./demo.sh --cluster x.json",
                     "milligpud --webhook-listen 127.0.0.1:0", "tests/unit/LAYER/test_X.c", "kubectl get pods --all"):
            with self.subTest(line):
                self.assertEqual(trouble(line), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
