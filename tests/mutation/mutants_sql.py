"""The usual mutants of the store's SQL: of the schema, and of the statements in C strings.

Each mutant is prepared against the schema; those that are no valid SQL do not count.
"""

import re
import sqlite3
from typing import Dict, Iterator, List, Optional, Tuple

from mutants_c import Mutant

STRINGS = re.compile(r'"(?:\\.|[^"\\])*"(?:[\s\\]*"(?:\\.|[^"\\])*")*')
ONE_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b")
C_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|/\*.*?\*/', re.DOTALL)
DEFINE = re.compile(r'^#define (\w+)[ \t\\]*\n?[ \t]*((?:"(?:\\.|[^"\\])*"[ \t]*(?:\\\n[ \t]*)?)+)', re.MULTILINE)
PARAMETER = re.compile(r"\?(\d*)")
VIRTUAL = re.compile(r'"CREATE TABLE (\w+) \(.*?\)"', re.DOTALL)
CODE = re.compile(r"X\((ST_\w+),\s*$")
C_FUNCTION = re.compile(r"^[a-z][^;={}]*?(\w+)\([^;{}]*\)\n\{", re.MULTILINE)
TOKEN = re.compile(
    r"(?P<blank>\s+|--[^\n]*)|(?P<text>'(?:''|[^'])*'|\"[^\"]*\")|(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign><>|<=|>=|!=|==|\|\||.)", re.DOTALL)
TRIGGER = re.compile(r"CREATE TRIGGER (\w+).*?\nEND;\n", re.DOTALL)
PART = re.compile(r"CREATE TRIGGER (?P<trigger>\w+).*?\nEND;\n|CREATE (?:TABLE|(?:UNIQUE )?INDEX) (?P<table>\w+).*?;",
                  re.DOTALL)
INDEX = re.compile(r"CREATE INDEX .*?;")  # it changes speed, not results

SWAPS = {"=": ("<>",), "<>": ("=",), "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="),
         "+": ("-",), "-": ("+",), "&": ("|",), "AND": ("OR",), "OR": ("AND",), "MIN": ("max",), "MAX": ("min",)}
COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}
# The tokens that can stand before and after a term of a condition.
OPENS = {"WHERE", "WHEN", "HAVING", "ON", "AND", "OR", "("}
CLOSES = {"AND", "OR", ")", ";", "GROUP", "ORDER", "LIMIT", "BEGIN", "THEN", "JOIN", "UNION", "HAVING", "WHERE", "DO", ","}


class Token:
    def __init__(self, match: "re.Match[str]") -> None:
        self.kind = match.lastgroup or ""
        self.text = match.group()
        self.upper = self.text.upper() if self.kind == "word" else self.text
        self.start = match.start()
        self.end = match.end()


class Maker:
    """Collects the mutants of one text: the schema, or one statement."""

    def __init__(self, file: str, part: str, line: int, text: str) -> None:
        self.file = file
        self.part = part
        self.line = line
        self.text = text
        self.tokens = [Token(match) for match in TOKEN.finditer(text) if match.lastgroup != "blank"]
        self.pair: Dict[int, int] = {}
        open_: List[int] = []
        for i, token in enumerate(self.tokens):
            if token.text == "(":
                open_.append(i)
            elif token.text == ")":
                self.pair[open_[-1]] = i
                self.pair[i] = open_.pop()
        self.between = {i for i in range(len(self.tokens)) if self.is_of_between(i)}
        self.found: Dict[Tuple[int, int, str], Mutant] = {}

    def is_of_between(self, i: int) -> bool:
        """Is this the AND of BETWEEN 1 AND 3, which joins no terms?"""
        return self.tokens[i].upper == "AND" and any(token.upper == "BETWEEN" for token in self.tokens[max(i - 3, 0):i])

    def place_of(self, start: int) -> Tuple[str, int]:
        """The table or trigger, and the line in the file."""
        if self.part:
            return self.part, self.line
        part = [match for match in PART.finditer(self.text) if match.start() <= start < match.end()]
        return part[0].group("trigger") or part[0].group("table") if part else "", self.text.count("\n", 0, start) + 1

    def add(self, start: int, end: int, new: str, kind: str) -> None:
        old = self.text[start:end]
        part, line = self.place_of(start)
        shown = old if len(old) < 120 else f"{old[:50]} ... {old[-30:]}"
        before = self.text[max(0, start - 40):start].rsplit("\n", 1)[-1]
        after = self.text[end:end + 30].split("\n", 1)[0]
        diff = " ".join(f"{before}[-{shown}-]{{+{new}+}}{after}".split())
        self.found.setdefault((start, end, new), Mutant(self.file, part, line, start, end, new, kind, diff))

    def make(self) -> List[Mutant]:
        silent = [match.span() for match in INDEX.finditer(self.text)]
        for i, token in enumerate(self.tokens):
            if any(start <= token.start < end for start, end in silent):
                continue
            self.change_token(i, token)
            if token.upper in OPENS and i not in self.between:
                self.drop_term(i)
        if not self.part:
            self.drop_clauses()
        return sorted(self.found.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.new))

    def change_token(self, i: int, token: Token) -> None:
        following = self.tokens[i + 1].upper if i + 1 < len(self.tokens) else ""
        before = self.tokens[i - 1].upper if i else ""
        if token.kind == "number" and (before, following) == ("SELECT", "FROM"):
            return  # SELECT 1 FROM ... only asks whether there is a row
        if token.kind == "number":
            value = int(token.text)
            for new in ([1 - value] if value < 2 else [value + 1, value - 1]):
                self.add(token.start, token.end, str(new), "constant")
        elif token.upper == "IS" and following == "NOT":
            self.add(token.start, self.tokens[i + 1].end, "IS", "comparison")
        elif token.upper == "IS":
            self.add(token.start, token.end, "IS NOT", "comparison")
        elif token.upper == "EXISTS" and before == "NOT":
            self.add(self.tokens[i - 1].start, token.end, "EXISTS", "negation removed")
        elif token.upper == "EXISTS":
            self.add(token.start, token.end, "NOT EXISTS", "condition negated")
        elif token.upper in ("MIN", "MAX") and following != "(":
            return
        elif token.upper in SWAPS and i not in self.between and not self.is_assignment(i) and before != "(":
            for new in SWAPS[token.upper]:
                self.add(token.start, token.end, new, "comparison" if token.upper in COMPARISONS else "operator")
        elif token.upper == "IN" and following == "(":
            self.drop_elements(i + 1)

    def is_assignment(self, i: int) -> bool:
        """Is this the = of UPDATE t SET a = ?"""
        if self.tokens[i].text != "=":
            return False
        for token in reversed(self.tokens[:i]):
            if token.upper in ("WHERE", "SELECT", "WHEN", "ON", "CHECK", ";"):
                return False
            if token.upper == "SET":
                return True
        return False

    def drop_elements(self, i: int) -> None:
        """IN ('a', 'b'): remove 'a', or 'b'."""
        inside = self.tokens[i + 1:self.pair[i]]
        if any(token.kind != "text" and token.text != "," for token in inside):
            return
        for at in range(0, len(inside), 2):
            last = at + 1 >= len(inside)
            start = inside[at - 1].end if last and at else inside[at].start
            end = inside[at].end if last else inside[at + 1].end
            if last and at:
                start = inside[at - 1].start
            self.add(start, end, "", "element removed")

    def drop_term(self, i: int) -> None:
        """Make the term that begins after this token always true (or, among ORs, always false)."""
        opens = self.tokens[i].upper
        at = i + 1
        if opens == "WHEN" and "CASE" in (self.tokens[i - 1].upper, self.tokens[i - 2].upper):
            return
        if opens == "(" and (i == 0 or self.tokens[i - 1].upper not in ("CHECK", "AND", "OR", "WHERE", "WHEN", "NOT")):
            return
        if opens == "ON" and self.tokens[at].upper in ("DELETE", "CONFLICT", "CHARGE") or self.tokens[at].upper == "SELECT":
            return
        while at < len(self.tokens) and (self.tokens[at].upper not in CLOSES or at in self.between):
            if self.tokens[at].upper == "CASE":
                return
            at = self.pair[at] + 1 if self.tokens[at].text == "(" else at + 1
        if at == i + 1 or opens == "ON" and self.tokens[i + 2].upper in ("BEGIN", "WHEN"):
            return
        closes = self.tokens[at].upper if at < len(self.tokens) else ""
        if opens == "(" and closes == ")" and self.tokens[i - 1].upper == "CHECK":
            return  # the whole CHECK: see drop_clauses()
        start, end = self.tokens[i + 1].start, self.tokens[at - 1].end
        term = self.text[start:end]
        among_ors = opens == "OR" or closes == "OR"
        self.add(start, end, f"({term} AND 0)" if among_ors else f"({term} OR 1)", "term removed")

    def drop_clauses(self) -> None:
        for match in TRIGGER.finditer(self.text):
            self.add(match.start(), match.end(), "", "trigger removed")
            body = re.search(r"\nBEGIN\n(.*)\nEND;\n", match.group(), re.DOTALL)
            statements = list(re.finditer(r" *SELECT RAISE.*?;", body.group(1), re.DOTALL))
            for statement in statements if len(statements) > 1 else []:
                start = match.start() + body.start(1) + statement.start()
                self.add(start, start + len(statement.group()), "", "statement removed")
        for match in re.finditer(r" NOT NULL| REFERENCES \w+ \(\w+\)(?: ON DELETE CASCADE)?| ON DELETE CASCADE|UNIQUE ", self.text):
            self.add(match.start(), match.end(), "", "constraint removed")
        for match in re.finditer(r"\) STRICT(, )?", self.text):
            self.add(match.start(), match.end(), ") " if match.group(1) else ")", "constraint removed")
        for i, token in enumerate(self.tokens):
            if token.upper == "CHECK":
                start = self.tokens[i - 1].start if self.tokens[i - 1].text == "," else token.start
                self.add(start, self.tokens[self.pair[i + 1]].end, "", "CHECK removed")


def unescaped(literals: str) -> str:
    pieces = [match.group(1) for match in ONE_STRING.finditer(literals)]
    return "".join(pieces).replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def without_comments(text: str) -> str:
    return C_COMMENT.sub(lambda match: match.group(1) or re.sub(r"[^\n]", " ", match.group()), text)


def pieces_of(files: Dict[str, str]) -> Dict[str, str]:
    """Parts of statements that are macros: the name, and its literals in one line."""
    return {match.group(1): re.sub(r"[ \t]*\\\n[ \t]*", " ", match.group(2)).strip()
            for text in files.values() for match in DEFINE.finditer(without_comments(text))}


def statements_of(text: str, pieces: Dict[str, str]) -> Iterator[Tuple[str, int, str]]:
    """(function or name in the table, line, SQL) for each statement of a C file."""
    plain = without_comments(text)
    for name, literals in pieces.items():
        plain = re.sub(rf"(?<!#define )\b{name}\b", lambda _, literals=literals: literals, plain)
    for match in STRINGS.finditer(plain):
        sql = unescaped(match.group())
        if not STATEMENT.match(sql) or "%" in sql:
            continue
        code = CODE.search(re.sub(r"[\s\\]+$", " ", plain[:match.start()]).rstrip() + " ")
        functions = [found.group(1) for found in C_FUNCTION.finditer(plain[:match.start()])]
        yield code.group(1) if code else (functions or [""])[-1] or "-", plain.count("\n", 0, match.start()) + 1, sql


def parameters_of(statement: str) -> int:
    """?1 and ?2 may come more than once."""
    found = PARAMETER.findall(statement)
    return max([int(number) for number in found if number], default=len(found))


def virtual_tables(files: Dict[str, str]) -> str:
    """Tables that the store declares in C: plain ones will do to prepare a statement."""
    found = [match.group() for text in files.values() for match in [VIRTUAL.search(without_comments(text))] if match]
    return "".join(unescaped(text) + ";\n" for text in found)


def is_sql(schema: str, statement: Optional[str]) -> bool:
    database = sqlite3.connect(":memory:")
    try:
        database.executescript(schema)
        if statement is not None:
            database.execute(f"EXPLAIN {statement}", [0] * parameters_of(statement))
        return True
    except sqlite3.Error:
        return False
    finally:
        database.close()


def mutants_of_sql(files: Dict[str, str]) -> List[Tuple[Mutant, str, str]]:
    """(mutant, SQL before, SQL after)

    Migrations have no mutants: one that does not end with the tables of schema.sql is rolled back anyway.
    """
    schema = files["src/store/schema/schema.sql"]
    pieces = pieces_of(files)
    found = [(mutant, schema, schema[:mutant.start] + mutant.new + schema[mutant.end:])
             for mutant in Maker("src/store/schema/schema.sql", "", 0, schema).make()]
    for file, text in files.items():
        if file.endswith(".sql"):
            continue
        for part, line, sql in statements_of(text, pieces):
            found += [(mutant, sql, sql[:mutant.start] + mutant.new + sql[mutant.end:])
                      for mutant in Maker(file, part, line, sql).make()]
    whole = schema + virtual_tables(files)
    return [(mutant, before, after) for mutant, before, after in found
            if (is_sql(after, None) if before == schema else is_sql(whole, after))]
