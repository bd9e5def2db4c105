"""The usual mutants of a C file: each is one small change inside one function.

This relies on clang-format: a function's braces stand alone in the first column, and a binary operator has blanks
around it. Mutants that the compiler rejects do not count. Nothing inside must() or static_assert() is changed, because
an assertion is not behavior.
"""

import dataclasses
import re
from typing import Dict, Iterator, List, Optional, Tuple

TOKEN = re.compile(
    r"(?P<blank>\s+)"
    r"|(?P<comment>/\*.*?\*/|//[^\n]*)"
    r'|(?P<text>"(?:\\.|[^"\\])*")'
    r"|(?P<char>'(?:\\.|[^'\\])*')"
    r"|(?P<directive>^[ \t]*#(?:\\\n|[^\n])*)"
    r"|(?P<number>\d\w*)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign>->|\+\+|--|<<=|>>=|<=|>=|==|!=|&&|\|\||<<|>>|[-+*/%&|^]=|.)",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"(0[xX][0-9A-Fa-f]+|\d+)([uUlL]*)")

SWAPS = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("*",), "<<": (">>",), ">>": ("<<",),
    "&": ("|",), "|": ("&",), "^": ("&",), "&&": ("||",), "||": ("&&",),
    "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "|=": ("&=",), "&=": ("|=",),
    "<<=": (">>=",), ">>=": ("<<=",), "++": ("--",), "--": ("++",),
}
COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
LOOPS = {"for", "while", "switch", "if"}
TYPES = {
    "const", "static", "struct", "enum", "union", "unsigned", "signed", "int", "char", "bool", "long", "short",
    "double", "float", "void", "CLEANUP", "typedef", "extern", "_Atomic", "volatile",
}


def is_assertion(name: str) -> bool:
    """must(), must_debug(), must_fit() and so on, which can only abort."""
    return name == "must" or name.startswith("must_") or name == "static_assert"


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Mutant:
    """Replaces text[start:end] by new."""

    file: str
    function: str
    line: int
    start: int
    end: int
    new: str
    kind: str
    diff: str

    @property
    def module(self) -> str:
        """The file without its folder: a move to another room changes no mutant."""
        return self.file.rsplit("/", 1)[-1]

    @property
    def key(self) -> Tuple[str, str, str]:
        return self.module, self.function, self.diff


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    start: int  # of the signature
    body: int  # of the opening brace
    end: int  # after the closing brace
    signature: str
    arguments: Tuple[str, ...]

    @property
    def returns(self) -> str:
        before = self.signature[: re.search(rf"\b{self.name}\(", self.signature).start()]
        return " ".join(word for word in before.split() if word not in ("static", "inline", "const"))


def tokens_of(text: str) -> List[Token]:
    """All tokens except blanks, comments and preprocessor directives."""
    return [Token(match.lastgroup or "", match.group(), match.start(), match.end())
            for match in TOKEN.finditer(text) if match.lastgroup not in ("blank", "comment", "directive")]


def split_arguments(text: str) -> Iterator[str]:
    depth = 0
    at = 0
    for i, sign in enumerate(text + ","):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth <= 0:
            yield text[at:i].strip()
            at = i + 1


def name_of_argument(text: str) -> str:
    pointer = re.search(r"\(\*(\w+)\)", text)
    return pointer.group(1) if pointer else re.search(r"(\w+)\s*(\[.*\])?$", text, re.DOTALL).group(1)


def functions_of(text: str) -> List[Function]:
    found = []
    for brace in re.finditer(r"^\{\n", text, re.MULTILINE):
        start = brace.start()
        while start > 0:
            before = text.rfind("\n", 0, start - 1) + 1
            line = text[before:start].rstrip()
            if not line or line[0] in "#}/ *" and not re.match(r" +\w", line) or line.endswith((";", "*/")):
                break
            start = before
        signature = text[start:brace.start()].strip()
        name = re.search(r"(\w+)\(", signature)
        end = text.index("\n}\n", brace.start()) + 3
        inside = signature[name.end():signature.rindex(")")]
        arguments = () if inside.strip() == "void" else tuple(map(name_of_argument, split_arguments(inside)))
        found.append(Function(name.group(1), start, brace.start(), end, signature, arguments))
    return found


class Maker:
    """Walks the statements of one function and collects its mutants."""

    def __init__(self, file: str, text: str, function: Function) -> None:
        self.file = file
        self.text = text
        self.function = function
        self.tokens = tokens_of(text[: function.end])
        self.tokens = [token for token in self.tokens if token.start >= function.body]
        self.pair = self.find_pairs()
        self.silent = self.find_silent()
        self.found: Dict[Tuple[int, int, str], Mutant] = {}

    def find_pairs(self) -> Dict[int, int]:
        pair, open_ = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in "([{":
                open_.append(i)
            elif token.kind == "sign" and token.text in ")]}":
                pair[open_[-1]] = i
                pair[i] = open_.pop()
        return pair

    def find_silent(self) -> set:
        """Tokens that are not changed: assertions, sizeof, attributes, and the array sizes in declarations."""
        silent = set()
        for i, token in enumerate(self.tokens[:-1]):
            after = self.tokens[i + 1]
            if (is_assertion(token.text) or token.text in ("sizeof", "__attribute__")) and after.text == "(":
                silent.update(range(i, self.pair[i + 1] + 1))
            if token.text == "[" and self.tokens[self.pair[i] + 1].text in (";", "=", "["):
                if i >= 2 and self.tokens[i - 1].kind == "word" and self.tokens[i - 2].kind == "word":
                    silent.update(range(i, self.pair[i] + 1))
        return silent

    def add(self, first: int, last: int, new: str, kind: str) -> None:
        """Add a mutant that replaces the tokens first to last by new."""
        if any(i in self.silent for i in (first, last)):
            return
        start, end = self.tokens[first].start, self.tokens[last].end
        old = self.text[start:end]
        if old == new:
            return
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.index("\n", end)
        diff = f"{self.text[line_start:start]}[-{old}-]{{+{new}+}}{self.text[end:line_end]}"
        mutant = Mutant(self.file, self.function.name, self.text.count("\n", 0, start) + 1, start, end, new, kind,
                        " ".join(diff.split()))
        self.found.setdefault((start, end, new), mutant)

    def make(self) -> List[Mutant]:
        self.walk(0)
        for i, token in enumerate(self.tokens):
            if i not in self.silent:
                self.change_token(i, token)
        return sorted(self.found.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.new))

    def is_binary(self, i: int) -> bool:
        before, token = self.tokens[i - 1], self.tokens[i]
        operand = before.kind in ("number", "char", "text") or before.text in (")", "]") or (
            before.kind == "word" and before.text not in ("return", "case"))
        return operand and self.text[token.end] in " \n" and self.text[token.start - 1] in " \n"

    def change_token(self, i: int, token: Token) -> None:
        if token.kind == "number":
            self.change_number(i, token)
        elif token.text in ("true", "false"):
            self.add(i, i, "false" if token.text == "true" else "true", "constant")
        elif token.text == "!" and self.tokens[i + 1].text != "!":
            self.add(i, i, "", "negation removed")
        elif token.text in ("break", "continue"):
            if self.tokens[i + 2].text == "}" and self.is_switch(self.pair[i + 2]):
                return  # at the end of a switch it makes no difference
            self.add(i, i, "", f"{token.text} removed")
        elif token.text == "?":
            self.negate_choice(i)
        elif token.text in SWAPS and (token.text in ("++", "--") or self.is_binary(i)):
            for new in SWAPS[token.text]:
                self.add(i, i, new, "comparison" if token.text in COMPARISONS else "operator")

    def is_switch(self, brace: int) -> bool:
        before = self.tokens[brace - 1]
        return before.text == ")" and self.tokens[self.pair[brace - 1] - 1].text == "switch"

    def change_number(self, i: int, token: Token) -> None:
        match = NUMBER.fullmatch(token.text)
        if match is None:
            return
        value = int(match.group(1), 0)
        base = "{:#X}" if match.group(1)[:2] in ("0x", "0X") else "{}"
        for new in ([1 - value] if value < 2 else [value + 1, value - 1]):
            self.add(i, i, base.format(new).replace("X", "x", 1) + match.group(2), "constant")

    def negate_choice(self, i: int) -> None:
        """Negate c of c ? a : b, after finding where c begins."""
        first = i
        while self.tokens[first - 1].text not in (",", "(", "[", "{", ";", "?", ":", "return") \
                and self.tokens[first - 1].text not in ASSIGNMENTS:
            first -= 1
            if self.tokens[first].text in (")", "]", "}"):
                first = self.pair[first]
        self.negate(first, i - 1)

    def negate(self, first: int, last: int) -> None:
        """Negate a condition, unless another mutant does the same: == for !=, or a ! removed."""
        signs = self.outer_signs(first, last)
        if not {"&&", "||", "?"} & signs and (signs & (COMPARISONS | ASSIGNMENTS) or self.tokens[first].text == "!"):
            return
        self.add(first, last, f"!({self.text[self.tokens[first].start:self.tokens[last].end]})", "condition negated")

    def outer_signs(self, first: int, last: int) -> set:
        signs, i = set(), first
        while i <= last:
            signs.add(self.tokens[i].text)
            i = self.pair[i] + 1 if self.tokens[i].text in ("(", "[", "{") else i + 1
        return signs

    def walk(self, i: int) -> int:
        """Walk one statement; return the index after it."""
        token = self.tokens[i]
        if token.text == "{":
            end = self.pair[i]
            i += 1
            while i < end:
                i = self.walk(i)
            return end + 1
        if token.text == "else":
            return self.walk(i + 1)
        if token.text == "do":
            return self.walk_simple(self.walk(i + 1))
        if token.text in ("case", "default"):
            while self.tokens[i].text != ":":
                i += 1
            return i + 1
        if token.text in LOOPS or self.is_macro_loop(i):
            close = self.pair[i + 1]
            if token.text in ("if", "while"):
                self.negate(i + 2, close - 1)
            return self.walk(close + 1)
        return self.walk_simple(i)

    def is_macro_loop(self, i: int) -> bool:
        """A macro that is followed by a statement: list_each(...) statement"""
        if self.tokens[i].kind != "word" or self.tokens[i + 1].text != "(":
            return False
        after = self.tokens[self.pair[i + 1] + 1]
        return self.tokens[i].text not in TYPES | {"return"} and (after.text == "{" or after.kind == "word")

    def walk_simple(self, i: int) -> int:
        first = i
        while self.tokens[i].text != ";":
            i = self.pair[i] + 1 if self.tokens[i].text in ("(", "[", "{") else i + 1
        if self.tokens[first].text == "return":
            self.change_return(first, i)
        elif self.is_expression(first, i):
            self.add(first, i, ";", "statement removed")
        return i + 1

    def is_expression(self, first: int, last: int) -> bool:
        one, two = self.tokens[first], self.tokens[first + 1]
        if first == last or one.text in TYPES or one.text in ("break", "continue", "goto", "while"):
            return False
        if one.kind == "word":
            return two.kind == "sign" and not (two.text == "*" and not self.is_binary(first + 1))
        return True

    def change_return(self, first: int, last: int) -> None:
        if first + 1 == last:
            self.add(first, last, ";", "statement removed")
            return
        returns = self.function.returns
        value = self.text[self.tokens[first + 1].start:self.tokens[last - 1].end]
        literal = first + 2 == last and (self.tokens[first + 1].kind == "number" or value in ("true", "false", "NULL"))
        if literal or returns.startswith("struct") and "*" not in returns:
            return
        if returns == "bool":
            self.negate(first + 1, last - 1)
        else:
            self.add(first + 1, last - 1, "NULL" if "*" in returns else f"({value}) + 1", "return value")


def mutants_of(file: str, text: str) -> List[Mutant]:
    return [mutant for function in functions_of(text) if not is_assertion(function.name)
            for mutant in Maker(file, text, function).make()]


def schema_of(text: str, file: str, mutants: Dict[int, Mutant], reached: Dict[str, int]) -> Tuple[str, List[Optional[int]]]:
    """The file with all of these mutants in it, and for each of its lines the mutant that it belongs to.

    A mutated function is a copy beside the original, which checks at its top which mutant is on.
    """
    out: List[str] = ["extern int mutant_on; extern unsigned char mutant_reached[];\n"]
    owner: List[Optional[int]] = [None]

    def write(piece: str, of: Optional[int] = None) -> None:
        out.append(piece)
        owner.extend([of] * piece.count("\n"))

    at = 0
    for function in functions_of(text):
        call = ", ".join(function.arguments)
        mine = {number: mutant for number, mutant in mutants.items()
                if mutant.file == file and mutant.function == function.name}
        write(text[at:function.start] + function.signature + ";\n")
        for number, mutant in mine.items():
            copy = re.sub(rf"\b{function.name}\(", f"{function.name}__{number}(", function.signature, count=1)
            body = text[function.body:mutant.start] + mutant.new + text[mutant.end:function.end]
            write(f"__attribute__((optimize(0))) {copy}\n{body}", number)
        write(f"{function.signature}\n{{\n    mutant_reached[{reached[f'{file} {function.name}']}] = 1;\n")
        if mine:
            cases = "".join(f"    case {number}: return {function.name}__{number}({call});\n" for number in mine)
            write(f"    switch (mutant_on) {{\n{cases}    default: break;\n    }}\n")
        write(text[function.body + 2:function.end])
        at = function.end
    write(text[at:])
    return "".join(out), owner
