"""base, core and wire only compute: nm shows what they call."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Set

# Functions that a pure layer may call besides its own and those of the layers below it.
PURE = set(
    "memcpy memmove memset memcmp memchr strlen strcmp strncmp strchr strstr qsort bsearch free".split()
)
# base wraps allocation and formatting, and must_fail() prints why it aborts.
BASE = PURE | set(
    "malloc calloc realloc strdup strndup vsnprintf vasprintf stderr fprintf fputs abort".split()
)
# Functions that the compiler itself adds.
COMPILER = ("__asan_", "__ubsan_", "__tsan_", "__sanitizer_", "_GLOBAL_OFFSET_TABLE_",
            "__stack_chk_fail")
BELOW = {"base": [], "core": ["base"], "wire": ["core", "base"]}


def symbols(archive: str, which: str) -> Set[str]:
    out = subprocess.run(
        ["nm", which, "--format=posix", archive], check=True, capture_output=True, text=True
    )
    return {line.split()[0] for line in out.stdout.splitlines() if len(line.split()) > 1}


def impure(layer: str, archives: Dict[str, str]) -> List[str]:
    wanted = symbols(archives[layer], "--undefined-only")
    for near in [layer] + BELOW[layer]:
        if near in archives:
            wanted -= symbols(archives[near], "--defined-only")
    allowed = BASE if layer == "base" else PURE
    return sorted(w for w in wanted - allowed if not w.startswith(COMPILER))


def compile_sample(folder: str, source: str) -> str:
    path = Path(folder, "sample.c")
    path.write_text(source)
    archive = str(path.with_suffix(".a"))
    compiler = os.environ.get("MILLIGPU_CC", "cc")
    subprocess.run([compiler, "-c", "-fno-builtin", str(path), "-o", f"{path}.o"], check=True)
    Path(archive).unlink(missing_ok=True)
    subprocess.run(["ar", "rc", archive, f"{path}.o"], check=True)
    return archive


def prove_sight(archives: Dict[str, str]) -> None:
    bad = "#include <time.h>\nlong now(void);\nlong now(void) { return (long)time(0); }\n"
    good = (
        "#include <string.h>\n_Noreturn void must_fail(const char *, int, const char *);\n"
        "long f(const char *s);\n"
        "long f(const char *s) { if (!s) must_fail(s, 1, s); return (long)strlen(s); }\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        sample = {"base": archives["base"], "core": compile_sample(folder, bad)}
        if impure("core", sample) != ["time"]:
            sys.exit("this check misses a call of time()")
        sample["core"] = compile_sample(folder, good)
        if impure("core", sample):
            sys.exit(f"this check flags good code: {impure('core', sample)}")


def main() -> None:
    archives = dict(a.split("=", 1) for a in os.environ["MILLIGPU_ARCHIVES"].split(","))
    prove_sight(archives)
    found = 0
    for layer in archives:
        for name in impure(layer, archives):
            print(f"{layer}: calls {name}, which is not on the list of check_purity.py")
            found += 1
    print(f"{len(archives)} archives, {found} findings")
    sys.exit(1 if found else 0)


main()
