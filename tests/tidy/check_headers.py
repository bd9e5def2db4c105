"""Each header compiles alone and when included twice, has a guard of its name, and says first what it is."""

import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import List, Optional

from tidy import Files, Finding, ROOT, run, tree

FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
         "-Wstrict-prototypes", "-Wundef", "-Wno-unused-function", "-x", "c", "-"]


def compile_alone(path: str, text: str) -> Optional[str]:
    with tempfile.TemporaryDirectory() as folder:
        include = path.split("/", 1)[1]
        copy = Path(folder, include)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        out = subprocess.run(
            [os.environ.get("MILLIGPU_CC", "cc"), f"-I{folder}", f"-I{ROOT}/include",
             f"-I{ROOT}/src", "-iquote", str(ROOT / Path(path).parent), *FLAGS],
            input=f'#include "{include}"\n#include "{include}"\n',
            capture_output=True, text=True, check=False)
        if out.returncode == 0:
            return None
        errors = [line for line in out.stderr.split("\n") if "error:" in line]
        return (errors or [out.stderr])[0].replace(f"{folder}/", "")


def check_one(path: str, text: str) -> List[Finding]:
    found = []
    stem = Path(path).stem
    fault = compile_alone(path, text)
    if fault:
        found.append(Finding(path, 1, f"does not compile alone: {fault}"))
    guard = re.search(r"^#ifndef (\w+)\n#define (\w+)$", text, re.MULTILINE)
    name = re.sub(r"\W", "_", stem).upper() + "_H"
    if not guard or guard.group(1) != guard.group(2) or not guard.group(1).endswith(name):
        found.append(Finding(path, 1, f"is not guarded by a name that ends in {name}"))
    if not re.match(rf"/\*\n \* {re.escape(stem)} - \S", text):
        found.append(Finding(path, 1, f"does not open with `{stem} - what it is in one line`"))
    return found


def check(files: Files) -> List[Finding]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        return [f for found in pool.map(check_one, files.keys(), files.values()) for f in found]


def sample(body: str, guard: str = "MILLIGPU_X_H", opening: str = "x - a sample") -> Files:
    text = f"/*\n * {opening}\n */\n#ifndef {guard}\n#define {guard}\n{body}\n#endif\n"
    return {"include/milligpu/x.h": text}


BAD = [
    sample("uint32_t x(void);"),
    sample("int x();"),
    sample("int x(void);", guard="MILLIGPU_Y_H"),
    sample("int x(void);", opening="a sample"),
    {"include/milligpu/x.h": "/*\n * x - no guard\n */\nstruct x {\n    int a;\n};\n"},
]
GOOD = [sample("#include <stdint.h>\nuint32_t x(void);")]

run(check, tree(".h", under=("include", "src")), BAD, GOOD)
