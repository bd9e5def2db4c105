#!/usr/bin/env python3
"""Applies words.txt, the list of renames, to the tree: rename.py [--check]

    scripts/rename/rename.py           renames, formats what it touched, and lists what is left for people
    scripts/rename/rename.py --check   says only which new names are taken already, and which old ones are not found

It works by content, not by folder, and may run again: a name that is renamed already is not found. Earlier lists
are in the history of words.txt; they are not applied any more, since some of their old names are in use again. Files are renamed
first, then identifiers (in code, and where a comment or a document names them), then fields, then words of prose. The
compiler finds the uses of a field: its declaration is changed, and clang names every place that does not know it.
"""

import argparse
import collections
import concurrent.futures
import importlib.machinery
import importlib.util
import itertools
import os
import pathlib
import re
import subprocess
import sys
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("words.txt")
C_FOLDERS = ("src", "include", "tests", "bench")
TABLES = ("tests/mutation/equivalent.txt", "tests/mutation/tried.txt")
KEPT = ("CHANGELOG.md", "FINDINGS.md", "METRICS.md", "CLI.md", "CONFIG.md", "REST.md", "commands.md", "NODE_REFERENCE.md",
        "public_words.txt", "check_old_words.py")
BUGS = "tests/seeded_bugs/bugs.txt"
BUG = re.compile(r"^== \w+: (\S+), by .*?(?=^== |\Z)", re.MULTILINE | re.DOTALL)
WIDTH = 100
ROUNDS_MAX = 40
VARIED_MAX = 8

TOKEN = re.compile(r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|"
                   r"(?P<tag>\b(?:struct|union|enum)\s+[A-Za-z_]\w*)|(?P<word>\b[A-Za-z_]\w*)", re.DOTALL)
NAMED = re.compile(r"\b(?:(?:struct|union|enum) )?[A-Za-z_]\w*\b(?:\(\))?")
UNKNOWN = re.compile(r"^(?P<path>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)$")
MEMBER = re.compile(r"(?:no member named|field designator) '(?P<field>\w+)' (?:in|does not refer to any field in type) "
                    r"'(?P<type>[^']*)'")
MACRO = re.compile(r"^(?P<path>[^:\n]+):(?P<line>\d+):(?P<column>\d+): note: expanded from macro")


class Entry(NamedTuple):
    kind: str  # file, name, part, local, field, prose, text
    old: str
    new: str
    where: Optional[str]  # a pattern: only files that contain it, or whose path matches it after \A


class Edit(NamedTuple):
    path: str
    offset: int
    old: str
    new: str


def read_list(text: str) -> List[Entry]:
    """A line is: [in 'PATTERN'] KIND OLD NEW; in prose, old and new stand between quotes."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = None
        match = re.match(r"in '([^']*)' (.*)", line)
        if match:
            where, line = match.groups()
        match = re.fullmatch(r"(prose|text) \"([^\"]+)\" \"([^\"]+)\"", line.strip())
        if match:
            entries.append(Entry(*match.groups(), where))
            continue
        match = re.fullmatch(r"local \"([^\"]+)\" (\S+) (\S+)", line.strip())
        if match:
            entries.append(Entry("local", f"{match.group(1)} {match.group(2)}", match.group(3), where))
            continue
        match = re.fullmatch(r"(file|name|part) (\S+) (\S+)|(struct|field) (\S+) (\S+)", line.strip())
        if not match:
            raise SystemExit(f"{LIST.name}:{number}: {line}")
        kind, old, new = [group for group in match.groups() if group]
        if kind == "struct":
            kind, old, new = "name", "struct " + old, "struct " + new
        entries.append(Entry(kind, old, new, where))
    return entries


def applies(where: Optional[str], path: str, text: str) -> bool:
    return where is None or re.search(where, f"{path}\n{text}") is not None


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE).stdout


def is_c(path: str) -> bool:
    return path.split("/")[0] in C_FOLDERS and path.endswith((".c", ".h", ".def"))


class Tree:
    """The texts of the tree that can hold a name, with what was changed."""

    def __init__(self) -> None:
        self.text: Dict[str, str] = {}
        self.touched: Set[str] = set()
        for path in git("ls-files", "-co", "--exclude-standard").splitlines():
            full = ROOT / path
            if not full.is_file() or full.is_symlink() or "/corpus/" in path or path.startswith("scripts/rename/"):
                continue
            try:
                self.text[path] = full.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                pass  # not a text

    def set(self, path: str, text: str) -> None:
        if self.text[path] != text:
            self.text[path] = text
            self.touched.add(path)

    def write(self) -> None:
        for path in self.touched:
            (ROOT / path).write_text(self.text[path], encoding="utf-8")

    def c_files(self) -> List[str]:
        return [path for path in sorted(self.text) if is_c(path)]


def is_document(path: str) -> bool:
    """Documents and scripts, which name functions and files; not what is history, or written by a test."""
    return path.endswith((".md", ".py", ".txt", ".cmake")) and os.path.basename(path) not in KEPT and not is_c(path)


def guard(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def rename_files(tree: Tree, entries: List[Entry]) -> Dict[str, str]:
    """Moves each file of that name and rewrites its mentions. Returns new path by old path."""
    moved = {}
    files = {entry.old: entry for entry in entries if entry.kind == "file"}
    new_of = {}
    for path in sorted(tree.text):
        folder, name = os.path.split(path)
        if name in files and applies(files[name].where, path, tree.text[path]):
            moved[path] = os.path.join(folder, files[name].new)
            new_of[name] = files[name].new
    for old, new in moved.items():
        git("mv", old, new)
        tree.text[new] = tree.text.pop(old)
        tree.touched.add(new)
    if not new_of:
        return moved
    names = re.compile(r"(?<![\w.-])(" + "|".join(sorted(map(re.escape, new_of), key=len, reverse=True)) + r")(?![\w-]|\.\w)")
    units = {pathlib.Path(old).stem[5:]: pathlib.Path(new).stem[5:] for old, new in new_of.items() if old.startswith("test_")}
    heads = {guard(old): guard(new) for old, new in new_of.items() if old.endswith(".h")}
    for path in sorted(tree.text):
        if path == "CHANGELOG.md":
            continue
        text = names.sub(lambda match: new_of[match.group()], tree.text[path])
        text = re.sub(r"(?<=\bunit\.)(\w+)\.(\w+)\b",
                      lambda match: f"{match.group(1)}.{units.get(match.group(2), match.group(2))}", text)
        if path.endswith(".h"):
            text = rename_guard(text, os.path.basename(path), heads)
        tree.set(path, text)
    for old, new in moved.items():
        first = re.sub(r"^(/\*\n \* |/\* )" + re.escape(pathlib.Path(old).stem) + " - ",
                       lambda match: match.group(1) + pathlib.Path(new).stem + " - ", tree.text[new])
        tree.set(new, first)
    return moved


def rename_guard(text: str, name: str, heads: Dict[str, str]) -> str:
    for old, new in heads.items():
        if new == guard(name):
            text = re.sub(rf"\b(MILLIGPU_(?:[A-Z]+_)*){old}\b", rf"\g<1>{new}", text)
    return text


def rename_identifier(word: str, names: Dict[str, str], parts: Dict[str, str]) -> str:
    if word in names:
        return names[word]
    tag, _, bare = word.rpartition(" ")
    if tag:
        return re.sub(r"\s\S+$", lambda match: match.group()[0] + rename_identifier(bare, names, parts), word)
    for old, new in parts.items():
        if old in word:
            word = re.sub(rf"(?<![^_]){old}(?![^_])", new, word)
        if old.upper() in word:
            word = re.sub(rf"(?<![^_]){old.upper()}(?![^_])", new.upper(), word)
    return word


def rename_code(text: str, names: Dict[str, str], parts: Dict[str, str]) -> str:
    def replace(match: "re.Match[str]") -> str:
        token = match.group()
        if match.lastgroup == "string":
            return token
        if match.lastgroup == "comment":
            return rename_named(token, names, parts)
        if match.lastgroup == "tag":
            tag, name = token.split()
            return tag + " " + rename_identifier("struct " + name, names, parts).split()[-1]
        return rename_identifier(token, names, parts)

    return TOKEN.sub(replace, text)


def rename_named(text: str, names: Dict[str, str], parts: Dict[str, str]) -> str:
    """Prose: only what cannot be a word of English."""
    def replace(match: "re.Match[str]") -> str:
        token = match.group()
        called = token.endswith("()")
        word = token[:-2] if called else token
        if " " in word:
            tag, name = word.split(" ")
            if "struct " + name not in names:
                return tag + " " + (rename_identifier(name, names, parts) if "_" in name or called else name) + ("()" if called else "")
            return tag + " " + names["struct " + name].split()[-1]
        if "_" not in word and not called:
            return token
        return rename_identifier(word, names, parts) + ("()" if called else "")

    return NAMED.sub(replace, text)


def rename_local(tree: Tree, entry: Entry) -> None:
    """In each piece of a file that ends with a } or ; in its first column or line: a function, or a declaration."""
    kind, _, old = entry.old.rpartition(" ")
    declared = re.compile(rf"\b{kind} (?:const )?\**{old}\b")
    use = re.compile(rf"(?<![.>\w])(?<!struct ){old}\b")
    for path in tree.c_files():
        text = tree.text[path]
        if not declared.search(text) or not applies(entry.where, path, text):
            continue
        pieces = re.split(r"(?<=\n\}\n)|(?<=\);\n)(?=\S)", text)
        for number, piece in enumerate(pieces):
            code = blank(piece)
            if not declared.search(code):
                continue
            if re.search(rf"(?<![.>\w])(?<!struct ){entry.new}\b", code):
                print(f"local {entry.new} is taken: {path}: {declared.search(code).group()}")
                continue
            for match in reversed(list(use.finditer(code))):
                piece = piece[:match.start()] + entry.new + piece[match.end():]
            pieces[number] = piece
        text = "".join(pieces)
        tree.set(path, text)
        if not re.search(rf"(?<![.>\w])(?<!struct ){old}\b", blank(text)):
            rename_quoted(tree, path, re.compile(rf"(?<![.>\w]){old}\b(?! +[A-Za-z])"), entry.new)  # no word of a text


def rename_quoted(tree: Tree, file: str, pattern: "re.Pattern[str]", new: str) -> None:
    """In the code that the lists of mutants and of seeded bugs quote of a file."""
    for table in (*TABLES[:1], BUGS):
        if table in tree.text:
            line = BUG if table == BUGS else re.compile(rf"^{re.escape(file)} :: .*$", re.MULTILINE)
            tree.set(table, line.sub(lambda match: quoted(match, table, file, pattern, new), tree.text[table]))


def quoted(match: "re.Match[str]", table: str, file: str, pattern: "re.Pattern[str]", new: str) -> str:
    if table == BUGS:
        return match.group() if match.group(1) != file else renamed_bug(match.group(), lambda line: pattern.sub(new, line))
    head, why = match.group().rsplit(" :: ", 1)
    return f"{pattern.sub(new, head)} :: {why}"


def renamed_bug(text: str, rename: Callable[[str], str]) -> str:
    """Only the lines of the file, not the story."""
    return re.sub(r"^[-+].*$", lambda line: rename(line.group()), text, flags=re.MULTILINE)


def rename_names(tree: Tree, entries: List[Entry]) -> None:
    """Runs of entries with the same condition are one pass."""
    at = 0
    entries = [entry for entry in entries if entry.kind in ("name", "part", "local")]
    while at < len(entries):
        if entries[at].kind == "local":
            rename_local(tree, entries[at])
            at += 1
            continue
        where = entries[at].where
        names, parts = {}, {}
        while at < len(entries) and entries[at].where == where and entries[at].kind != "local":
            (names if entries[at].kind == "name" else parts)[entries[at].old] = entries[at].new
            at += 1
        files = {path for path in tree.c_files() if applies(where, path, tree.text[path])}

        def rename(word: str) -> str:
            return rename_identifier(word, names, parts)

        for path in sorted(tree.text):
            text = tree.text[path]
            if path in files:
                tree.set(path, rename_code(text, names, parts))
            elif is_table(path):
                tree.set(path, rename_table(path, text, lambda file: rename if where is None or file in files else None))
            elif is_document(path) and where is None:
                tree.set(path, rename_named(text, names, {} if path.endswith(".py") else parts))


def is_table(path: str) -> bool:
    return path in (*TABLES, BUGS)


def rename_table(path: str, text: str, rename_for: "Callable[[str], Optional[Callable[[str], str]]]") -> str:
    """The code that a table quotes: it follows the file that the line, or the bug, is about."""
    def words(rename: Callable[[str], str], code: str) -> str:
        return re.sub(r"\b[A-Za-z_]\w*", lambda match: rename(match.group()), code)

    if path == BUGS:
        def block(match: "re.Match[str]") -> str:
            rename = rename_for(match.group(1))
            return renamed_bug(match.group(), lambda line: words(rename, line)) if rename else match.group()

        return BUG.sub(block, text)
    lines = []
    for line in text.splitlines():
        columns = line.split(" :: ")
        file = columns[0].split()[-1] if columns[0].split() else ""
        rename = rename_for(file) if len(columns) > 1 and not line.startswith("#") else None
        if rename is not None:
            columns[1:3] = [words(rename, column) for column in columns[1:3]]
            line = " :: ".join(columns)
        lines.append(line)
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def body_of(text: str, at: int) -> int:
    depth = 0
    for offset in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    return len(text)


def blank(text: str) -> str:
    """The same length, without comments and strings."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()) if match.lastgroup in ("comment", "string")
                     else match.group(), text)


def rename_declarations(tree: Tree, fields: Dict[Tuple[str, str], Entry]) -> Tuple[Set[Tuple[str, str]], Dict]:
    """Changes the declarations; returns those that were found, and anonymous structs' fields by file."""
    found, by_file = set(), collections.defaultdict(dict)
    tags = {tag for tag, _ in fields}
    for path in tree.c_files():
        text = tree.text[path]
        code = blank(text)
        edits = []
        for match in re.finditer(r"\b(?:struct|union)\s+(\w+)\s*\{", code):
            if match.group(1) not in tags:
                continue
            end = body_of(code, match.end() - 1)
            for (tag, old), entry in fields.items():
                if tag != match.group(1) or not applies(entry.where, path, text):
                    continue
                for use in re.finditer(rf"\b{old}\b(?=\s*(?:\[[^\]]*\]\s*)*[;,:)])", code[match.end():end]):
                    edits.append(Edit(path, match.end() + use.start(), old, entry.new))
                    found.add((tag, old))
                    by_file[path][old] = entry.new
        for edit in sorted(set(edits), key=lambda edit: -edit.offset):
            text = text[:edit.offset] + edit.new + text[edit.offset + len(edit.old):]
        tree.set(path, text)
    return found, by_file


def clang_run():
    """tests/clang/run knows how each file is compiled."""
    loader = importlib.machinery.SourceFileLoader("clang_run", str(ROOT / "tests" / "clang" / "run"))
    spec = importlib.util.spec_from_loader("clang_run", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def place_of(tree: Tree, line: int, column: int, path: str, old: str) -> Optional[int]:
    raw = tree.text[path].split("\n")
    if line > len(raw):
        return None
    start = sum(len(one) + 1 for one in raw[:line - 1])
    column = len(raw[line - 1].encode()[:column - 1].decode(errors="ignore"))
    for at in (column, column + 1):
        if re.match(rf"{old}\b", raw[line - 1][at:]):
            return start + at
    return None


def edits_of(tree: Tree, output: str, folder: str, fields: Dict, by_file: Dict) -> Tuple[Set[Edit], List[str]]:
    edits, other = set(), []
    lines = output.splitlines()
    for number, line in enumerate(lines):
        error = UNKNOWN.match(line)
        if not error:
            continue
        member = MEMBER.search(error["text"])
        if not member:
            other.append(line)
            continue
        old = member["field"]
        tag = re.search(r"(?:struct|union) (\w+)$", member["type"])
        entry = fields.get((tag.group(1), old)) if tag else None
        new = entry.new if entry else None
        at_struct = re.search(r" at ([^:]+):\d+:\d+\)", member["type"])
        if at_struct:
            new = by_file.get(os.path.relpath(os.path.join(folder, at_struct.group(1)), ROOT), {}).get(old)
        places = [error]
        for note in lines[number + 1:]:
            if UNKNOWN.match(note):
                break
            if MACRO.match(note):
                places.append(MACRO.match(note))
        done = False
        for place in reversed(places):
            path = os.path.relpath(os.path.join(folder, place["path"]), ROOT)
            if new is None or path not in tree.text:
                continue
            offset = place_of(tree, int(place["line"]), int(place["column"]), path, old)
            if offset is not None:
                edits.add(Edit(path, offset, old, new))
                done = True
                break
        if not done:
            other.append(line)
    return edits, other


def rename_fields(tree: Tree, entries: List[Entry]) -> Tuple[List[str], Dict[str, Dict[str, Set[str]]]]:
    fields = {tuple(entry.old.split(".", 1)): entry for entry in entries if entry.kind == "field"}
    found, by_file = rename_declarations(tree, fields)
    print(f"fields: {len(found)} of {len(fields)} are declared under their old name", flush=True)
    tree.write()
    clang = clang_run()
    clang.configure()
    units = clang.units()
    changed: Dict[str, Dict[str, Set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))

    def ask(unit):
        return clang.ask([*unit.command, "-fsyntax-only", "-w", "-ferror-limit=0", "-fmacro-backtrace-limit=0"], unit.folder)

    for turn in range(ROUNDS_MAX):
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            answers = list(pool.map(ask, units))
        edits, other, failed = set(), set(), []
        for unit, answer in zip(units, answers):
            if answer.returncode == 0:
                continue
            failed.append(unit)
            more, unknown = edits_of(tree, answer.stdout, unit.folder, fields, by_file)
            edits |= more
            other |= set(unknown)
        print(f"round {turn + 1}: {len(units)} files, {len(failed)} do not compile, {len(edits)} uses to rename", flush=True)
        if not edits:
            return sorted(other), changed
        for edit in sorted(edits, key=lambda edit: (edit.path, -edit.offset)):
            text = tree.text[edit.path]
            if text[edit.offset:edit.offset + len(edit.old)] == edit.old:
                tree.set(edit.path, text[:edit.offset] + edit.new + text[edit.offset + len(edit.old):])
                changed[edit.path][edit.old].add(edit.new)
        tree.write()
        units = failed
    return ["too many rounds"], changed


def rename_fields_in_tables(tree: Tree, changed: Dict[str, Dict[str, Set[str]]]) -> None:
    """Where all uses of a field in a file were renamed alike, what is quoted of that file follows."""
    for file, fields in changed.items():
        for old, new in fields.items():
            if len(new) == 1 and not re.search(rf"(?:->|\.){old}\b", blank(tree.text[file])):
                rename_quoted(tree, file, re.compile(rf"(?<=[.>]){old}\b"), min(new))


def rename_prose(tree: Tree, entries: List[Entry]) -> None:
    """Comments and documents; a line of a comment is filled anew by people."""
    for entry in entries:
        if entry.kind not in ("prose", "text"):
            continue
        place = "comment" if entry.kind == "prose" else "string"
        pattern = re.compile(r"(?<![\w/.-])" + re.escape(entry.old).replace(r"\ ", r"(?:\s+\*?\s*)") + r"(?![\w(]|-\w|\.\w)")

        def swap(match: "re.Match[str]") -> str:
            return entry.new

        for path in sorted(tree.text):
            text = tree.text[path]
            if not pattern.search(text) or not applies(entry.where, path, text):
                continue
            if is_c(path):
                tree.set(path, TOKEN.sub(lambda match: pattern.sub(swap, match.group()) if match.lastgroup == place
                                         else match.group(), text))
            elif entry.kind == "prose" and path.endswith(".md") and is_document(path):
                tree.set(path, pattern.sub(swap, text))


def fill(text: str, head: str, rest: str) -> str:
    lines = [head]
    empty = True
    for word in text.split():
        if not empty and len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(rest)
            empty = True
        lines[-1] += (" " if lines[-1][-1] != " " else "") + word
        empty = False
    return "\n".join(lines)


def is_prose(line: str) -> bool:
    """Of a block comment: no diagram, table, list or indented part."""
    return re.match(r"\s* \* [^\s*-]", line) is not None and re.search(r"\w\s{2,}\S|-->|<--|\|", line[3:].strip()) is None


def fill_comments(text: str) -> str:
    """Paragraphs of block comments with a line that became too long; not a comment beside code."""
    lines, number = text.split("\n"), 0
    while number < len(lines):
        line = lines[number]
        alone = re.fullmatch(r"(\s*)/\* (.*) \*/", line)
        if len(line) > WIDTH and alone:
            lines[number:number + 1] = (f"{alone.group(1)}/*\n" + fill(alone.group(2), alone.group(1) + " *", alone.group(1) + " *") +
                                        f"\n{alone.group(1)} */").split("\n")
        elif len(line) > WIDTH and is_prose(line):
            first, last = number, number
            while is_prose(lines[first - 1]):
                first -= 1
            while is_prose(lines[last + 1]):
                last += 1
            head = re.match(r"\s* \*", line).group()
            words = " ".join(one.strip()[1:].strip() for one in lines[first:last + 1])
            filled = fill(words, head, head).split("\n")
            lines[first:last + 1] = filled
            number = first + len(filled) - 1
        number += 1
    return "\n".join(lines)


def format_files(tree: Tree) -> None:
    paths = [path for path in sorted(tree.touched) if path.endswith((".c", ".h"))]
    for at in range(0, len(paths), 100):
        subprocess.run(["clang-format", "-i", *paths[at:at + 100]], cwd=ROOT, check=True)
    for path in paths:
        tree.text[path] = fill_comments((ROOT / path).read_text(encoding="utf-8"))
        (ROOT / path).write_text(tree.text[path], encoding="utf-8")


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def source_of(tree: Tree, name: str) -> str:
    """The path of a source by its name, as the list of mutants has it; a path stays."""
    paths = [path for path in tree.text if path.startswith("src/") and path.endswith("/" + name)]
    return paths[0] if len(paths) == 1 else name


def variants(text: str, renamed: Dict[str, Set[str]]) -> Iterator[str]:
    """The text with old words replaced: all of them, then all but some."""
    words = re.compile(r"(?<!\w)(?:" + "|".join(sorted(map(re.escape, renamed), key=len, reverse=True)) + r")\b(?! +[A-Za-z])")
    places = list(words.finditer(text))
    if len(places) > VARIED_MAX:
        return
    for chosen in itertools.product(*[[*sorted(renamed[place.group()]), place.group()] for place in places]):
        out, end = "", 0
        for place, word in zip(places, chosen):
            out += text[end:place.start()] + word
            end = place.end()
        yield out + text[end:]


def origin_of(change: str) -> str:
    return squeeze(re.sub(r"\[-(.*?)-\]\{\+.*?\+\}", r"\1", change))


def requote(tree: Tree, entries: List[Entry]) -> None:
    """Code that the lists of mutants and of seeded bugs quote, and that is not found: with the new words, which may depend
    on the struct, and in a bug as the formatter has broken it into lines."""
    renamed: Dict[str, Set[str]] = collections.defaultdict(set)
    for entry in entries:
        if entry.kind in ("field", "local", "name"):
            renamed[re.split(r"[. ]", entry.old)[-1]].add(entry.new.split()[-1])
    requote_mutants(tree, renamed)
    requote_bugs(tree, renamed)
    for path in (TABLES[0], BUGS):
        (ROOT / path).write_text(tree.text[path], encoding="utf-8")


def requote_mutants(tree: Tree, renamed: Dict[str, Set[str]]) -> None:
    lines = tree.text[TABLES[0]].split("\n")
    found = set(lines_with_place(tree))
    for number, line in enumerate(lines):
        columns = line.split(" :: ")
        if number in found or len(columns) < 4 or line.startswith("#"):
            continue
        text = squeeze(tree.text.get(source_of(tree, columns[0]), ""))
        for change in variants(columns[2], renamed):
            if origin_of(change) in text:
                columns[2] = change
                break
        lines[number] = " :: ".join(columns)
    tree.set(TABLES[0], "\n".join(lines))


def requote_bugs(tree: Tree, renamed: Dict[str, Set[str]]) -> None:
    def requoted(bug: "re.Match[str]") -> str:
        lines = bug.group().split("\n")
        taken = [number for number, line in enumerate(lines) if line.startswith("-")]
        old = "\n".join(lines[number][1:] for number in taken)
        text = tree.text.get(bug.group(1), "")
        if text.count(old) == 1:
            return bug.group()
        for change in variants(old, renamed):
            loose = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", change)))
            places = list(re.finditer((r"[ ]*" if old[0] == " " else "") + loose, text))
            if len(places) == 1:
                lines[taken[0]:taken[-1] + 1] = ["-" + line for line in places[0].group().split("\n")]
                return "\n".join(lines)
        print(f"seeded bug without its place: {lines[0]}")
        return bug.group()

    tree.set(BUGS, BUG.sub(requoted, tree.text[BUGS]))


def say_rest(tree: Tree, quoted_before: Set[int]) -> None:
    for path in tree.c_files():
        if path in tree.touched and not path.endswith(".def"):
            for number, line in enumerate(tree.text[path].split("\n"), 1):
                if len(line) > WIDTH:
                    print(f"too long: {path}:{number}: {line.strip()[:80]}")
    for number in sorted(quoted_before - set(lines_with_place(tree))):
        print(f"mutant without its line: {TABLES[0]}:{number + 1}: {tree.text[TABLES[0]].splitlines()[number][:140]}")


def lines_with_place(tree: Tree) -> Iterator[int]:
    """The lines of the list of mutants whose line of code is in its file; code that the list cuts short is not."""
    for number, line in enumerate(tree.text.get(TABLES[0], "").splitlines()):
        columns = line.split(" :: ")
        if len(columns) < 4 or line.startswith("#"):
            continue
        if origin_of(columns[2]) in squeeze(tree.text.get(source_of(tree, columns[0]), "")):
            yield number


def check(tree: Tree, entries: List[Entry]) -> None:
    seen = collections.Counter()
    for path in tree.c_files():
        for match in TOKEN.finditer(tree.text[path]):
            if match.lastgroup == "word":
                seen[match.group()] += 1
            elif match.lastgroup == "tag":
                seen["struct " + match.group().split()[1]] += 1
    for entry in entries:
        if entry.kind == "name":
            if seen[entry.new] and entry.where is None:
                print(f"taken: {entry.old} -> {entry.new} ({seen[entry.new]} uses)")
            if not seen[entry.old]:
                print(f"not found: {entry.old}")
        if entry.kind == "file" and not any(os.path.basename(path) == entry.old for path in tree.text):
            print(f"no file: {entry.old}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="rename.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    entries = read_list(LIST.read_text())
    tree = Tree()
    if options.check:
        check(tree, entries)
        return 0
    quoted_before = set(lines_with_place(tree))
    rename_files(tree, entries)
    rename_names(tree, entries)
    other, changed = rename_fields(tree, entries)
    rename_fields_in_tables(tree, changed)
    rename_prose(tree, entries)
    tree.write()
    format_files(tree)
    requote(tree, entries)
    say_rest(tree, quoted_before)
    for line in other:
        print(f"does not compile: {line}")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
