"""The words that users and their scripts depend on are those of tests/golden/public_words.txt.

Metrics, settings and their values, flags, commands, routes, fields of answers, annotations, names of objects, reasons,
kinds of drift and the words of the journal come from the tables that make them. If a word vanishes or appears,
this fails; if that is meant, UPDATE=1 in the environment writes the file: python3 tests/tidy/check_public_words.py
"""

import json
import os
import re
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Set

from tidy import Files, Finding, ROOT, run, tree

GOLDEN = "tests/golden/public_words.txt"
HEAD = "# Written by UPDATE=1 python3 tests/tidy/check_public_words.py; do not edit.\n"
STRING = r'"((?:\\.|[^"\\\n])*)"'
# X macros with a public word: macro -> what it is, and the number of the string that is the word
TABLES = {
    "VOUCH_TABLE": "vouch", "SAFE_TABLE": "safe mode", "ACCOUNT_TABLE": "account",
    "HEALTH_WORDS": "health", "INVENTORY_PROBLEMS": "inventory problem", "CONDITION_TABLE": "condition",
    "UNUSABLE_TABLE": "unusable", "WELL_KNOWN_TAINTS": "taint", "DRIFT_KINDS": "drift", "REASON_TABLE": "reason",
    "POLICY_TABLE": "policy", "COMMAND_TABLE": "journal command", "STORE_CHECK_TABLE": "check",
    "TOPOLOGY_TABLE": "topology", "CALL_TABLE": "call",
}


def rows(macro: str, text: str) -> Iterator[List[str]]:
    """The strings and bare words of each MACRO(...) of a table."""
    for match in re.finditer(rf"^{macro}\(((?:{STRING}|[^\")])*)\)", text, re.MULTILINE):
        yield [word.strip().strip('"') for word in re.findall(rf"(?:{STRING[:1]}(?:\\.|[^\"\\\n])*\"|[^,\"])+", match.group(1))]


def values(words: str) -> Iterable[str]:
    return [word for word in words.split() if re.fullmatch(r"[a-z0-9_.-]+", word)]


def of_settings(path: str, text: str) -> Iterator[str]:
    owner = "agent setting" if "agent" in os.path.basename(path) else "setting"
    for row in rows("SETTING", text):
        yield f"{owner} {row[0]}"
        if row[1] == "CHOICE":
            yield from (f"{owner} {row[0]}={word}" for word in values(row[-2]))


def of_table(name: str, text: str) -> Iterator[str]:
    if name in ("metrics.def", "node_metrics.def"):
        for row in rows("METRIC", text):
            yield f"{'agent ' if name[0] == 'n' else ''}metric {row[1]}{{{','.join(row[3:-1])}}}"
    elif name == "options.def":
        for row in rows("OPTION", text):
            yield f"flag --{row[2]}"
    elif name == "commands.def":
        for row in re.findall(rf"^COMMAND\(\w+, {STRING}", text, re.MULTILINE):
            yield f"command {row}"
    elif name == "routes.def":
        for method, path in re.findall(rf"^ROUTE\(\w+, {STRING}, {STRING}", text, re.MULTILINE):
            yield f"route {method} {path}"
        for word in re.findall(r"^(?:PARAMETER|PLACE)\((\w+),", text, re.MULTILINE):
            yield f"parameter {word}"


def of_schema(path: str, value: object) -> Iterator[str]:
    """Each field with the fields above it, and the words that it may be."""
    if isinstance(value, list):
        for item in value:
            yield from of_schema(path, item)
    if not isinstance(value, dict):
        return
    for name, field in value.get("properties", {}).items() if isinstance(value.get("properties"), dict) else []:
        yield f"field {path}.{name}"
        yield from of_schema(f"{path}.{name}", field)
    for word in value.get("enum", []) if isinstance(value.get("enum"), list) else []:
        yield f"field {path}={word}"
    for name in ("items", "additionalProperties", "oneOf", "anyOf", "allOf"):
        yield from of_schema(path, value.get(name))


def of_macros(text: str) -> Iterator[str]:
    for match in re.finditer(r"^#define (\w+)\(X\)((?:.*\\\n)*.*)", text, re.MULTILINE):
        what = TABLES.get(match.group(1))
        for row in re.split(r"\bX\(", match.group(2))[1:] if what else []:
            words = re.findall(STRING, row) or re.findall(r"^[A-Z_]+, ([a-z]+),", row)
            if words:
                yield f"{what} {words[0]}"


def of_code(path: str, text: str) -> Iterator[str]:
    for word in re.findall(r'"([\w.-]*(?:milligpu\.io|nvidia\.com)[\w./-]*)"', text):
        yield f"key {word}"
    for word in re.findall(r'"(milligpu-[a-z]+)"', text):
        yield f"object {word}"
    for word in re.findall(r'\{"(--[a-z-]+)", (?:AGENT|SETTINGS)_', text):
        yield f"flag of a daemon {word}"
    for word in re.findall(r'\b(?:getenv|environment)\w*\("(\w+)"', text):
        yield f"variable {word}"
    if os.path.basename(path) == "state.c":
        for word in re.findall(r'\b(?:add_\w+|put_\w+|json_\w+)\(\w+, "(\w+)"', text):
            yield f"journal {word}"


def words_of(files: Files) -> Set[str]:
    words: Set[str] = set()
    for path, text in files.items():
        name = os.path.basename(path)
        if name.endswith("settings.def"):
            words.update(of_settings(path, text))
        elif name.endswith(".def"):
            words.update(of_table(name, text))
        elif name == "schemas.json":
            for schema, value in json.loads(text).items():
                words.update(of_schema(schema, value))
        elif name.endswith((".c", ".h")):
            words.update(of_macros(text))
            words.update(of_code(path, text))
    return words


def check(files: Files) -> List[Finding]:
    sources = {path: text for path, text in files.items() if path != GOLDEN}
    now = words_of(sources)
    if files is TREE and os.environ.get("UPDATE"):
        Path(ROOT / GOLDEN).write_text(HEAD + "".join(f"{word}\n" for word in sorted(now)), encoding="utf-8")
        return []
    known = {line: number for number, line in enumerate(files.get(GOLDEN, "").splitlines(), 1) if not line.startswith("#")}
    advice = "; if it is meant, UPDATE=1 python3 tests/tidy/check_public_words.py"
    return [Finding(GOLDEN, known[word], f"a public word vanished: {word}{advice}") for word in sorted(set(known) - now)] + \
           [Finding(GOLDEN, 1, f"a public word appeared: {word}{advice}") for word in sorted(now - set(known))]


def sample(path: str, text: str, *words: str) -> Files:
    return {path: text, GOLDEN: HEAD + "".join(f"{word}\n" for word in words)}


TREE = {path: text for path, text in tree(".c", ".h", ".def", ".json", under=("src", "include")).items()}
TREE[GOLDEN] = (ROOT / GOLDEN).read_text(encoding="utf-8") if (ROOT / GOLDEN).exists() else ""
METRIC = 'METRIC(M_A, "milligpu_a", METRIC_GAUGE, "x,y", "Help (with a bracket), and more.")\n'
SETTING = 'SETTING(wake, CHOICE, "no", 0, 0, false, "object no", "help")\n'
ROUTE = 'ROUTE(api_pods, "GET", "/api/v1/pods", "limit", 200, "x", "", "help")\n'
REASON = '#define REASON_TABLE(X) \\\n    X(REASON_ROOM, "room", STATE, "no room") \\\n    X(REASON_A, "a", STATE, "b")\n'
SCHEMA = '{"Pod": {"type": "object", "properties": {"name": {"type": "string", "enum": ["a"]}}}}'
SAMPLES = [
    ("include/metrics.def", METRIC, ["metric milligpu_a{x,y}"]),
    ("include/node_metrics.def", METRIC, ["agent metric milligpu_a{x,y}"]),
    ("include/settings.def", SETTING, ["setting wake", "setting wake=no", "setting wake=object"]),
    ("src/x/agent_settings.def", 'SETTING(node, TEXT, "", 0, 0, "", "help")\n', ["agent setting node"]),
    ("src/x/options.def", "OPTION(by_x, 0, \"by-x\", \"WHAT\", \"\", \"help\")\n", ["flag --by-x"]),
    ("src/x/commands.def", 'COMMAND(command_top, "top", "", 0, 0, "", "help", "more")\n', ["command top"]),
    ("src/x/routes.def", ROUTE, ["route GET /api/v1/pods"]),
    ("src/x/routes.def", 'PARAMETER(limit, "{}", "help")\n', ["parameter limit"]),
    ("src/x/schemas.json", SCHEMA, ["field Pod.name", "field Pod.name=a"]),
    ("include/reason.h", REASON, ["reason a", "reason room"]),
    ("include/kind.h", "#define POLICY_TABLE(X) \\\n    X(POLICY_A, word, POLICY_A)\n", ["policy word"]),
    ("src/x/y.h", '#define A "milligpu.io/agent"\n', ["key milligpu.io/agent"]),
    ("src/x/y.c", 'const char NAME[] = "milligpu-bell";\n', ["object milligpu-bell"]),
    ("src/x/y.c", '    {"--help", AGENT_HELP, NULL, "help"},\n', ["flag of a daemon --help"]),
    ("src/x/y.c", 'getenv("HOME");\n', ["variable HOME"]),
    ("src/x/state.c", '    add_text(out, "why", why);\n', ["journal why"]),
]
BAD = [sample(path, text) for path, text, _ in SAMPLES] + [sample(path, "{}", *words) for path, _, words in SAMPLES]
GOOD = [sample(path, text, *words) for path, text, words in SAMPLES]

run(check, TREE, BAD, GOOD)
