"""Where mutants are: a function of core, statements of SQL of one name, or the schema; and how each is recognized again."""

import collections
from typing import Dict, Set, Tuple

import due
import mutants_c
from mutants_c import Mutant

TITLE = "What tests/mutation/run has tried, as it was then: written by --record."
SCHEMA = "schema.sql"


def place_of(mutant: Mutant) -> str:
    return SCHEMA if mutant.module == SCHEMA else f"{mutant.module} :: {mutant.function}"


def code_of(text: str) -> str:
    """Without comments, and without what clang-format may change."""
    return " ".join(token.text for token in mutants_c.tokens_of(text))


def functions(path: str, text: str) -> Dict[str, str]:
    """place -> its code"""
    module = path.rsplit("/", 1)[-1]
    return {f"{module} :: {function.name}": code_of(text[function.start:function.end])
            for function in mutants_c.functions_of(text)}


def digests(mutants: Dict[int, Mutant], sql: Dict[int, Tuple[str, str]], core: Dict[str, str]) -> Dict[str, str]:
    """place -> digest, of the places of these mutants. sql: (before, after) of a mutant; core: the files of core."""
    code: Dict[str, Set[str]] = collections.defaultdict(set)
    for number, (before, _) in sql.items():
        code[place_of(mutants[number])].add(before)
    written = {place: text for path, body in core.items() for place, text in functions(path, body).items()}
    for number, mutant in mutants.items():
        if number not in sql:
            code[place_of(mutant)].add(written[place_of(mutant)])
    return {place: due.digest("\n".join(sorted(texts))) for place, texts in code.items()}


def whole(mutants: Dict[int, Mutant], tried: Set[int]) -> Set[str]:
    """The places of which every mutant was tried."""
    left_out = {place_of(mutant) for number, mutant in mutants.items() if number not in tried}
    return {place_of(mutants[number]) for number in tried} - left_out
