"""One name, one thing: no two modules of one name, and no tag of a struct, union or enum in two files."""

import collections
import re
from typing import Dict, List, Set

from tidy import Files, Finding, code_only, layer_of, run, tree

TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")


def module_of(path: str) -> str:
    """The layer and the name: a header in include/milligpu and its source are one module."""
    layer = layer_of(path) or path.split("/")[2]
    return f"{layer} {path.rsplit('/', 1)[1].split('.')[0]}"


def check(files: Files) -> List[Finding]:
    modules: Dict[str, Set[str]] = collections.defaultdict(set)
    tags: Dict[str, Set[str]] = collections.defaultdict(set)
    first: Dict[str, str] = {}
    for path, text in sorted(files.items()):
        layer, name = module_of(path).split()
        modules[name].add(layer)
        first.setdefault(name, path)
        for tag in TAG.findall(code_only(text)):
            tags[tag].add(path)
    return [Finding(first[name], 1, f"the module {name} exists in {' and '.join(sorted(layers))}")
            for name, layers in modules.items() if len(layers) > 1
            ] + [Finding(min(paths), 1, f"the tag {tag} is also in {max(paths)}") for tag, paths in tags.items()
                 if len(paths) > 1]


BAD = [
    {"src/core/node/x.c": "", "src/store/past/x.c": ""},
    {"include/milligpu/core/node/x.h": "", "src/store/past/x.c": ""},
    {"src/core/node/x.c": "struct seat {\n};\n", "src/store/past/y.c": "struct seat {\n};\n"},
    {"src/core/node/x.c": "enum seat { A };\n", "src/store/past/y.c": "struct seat {\n};\n"},
]
GOOD = [
    {"include/milligpu/core/node/x.h": "", "src/core/node/x.c": ""},
    {"src/core/node/x.c": "struct seat {\n};\n", "src/store/past/y.c": "struct seat *seat;\n"},
]

run(check, tree(".c", ".h", under=("src", "include")), BAD, GOOD)
