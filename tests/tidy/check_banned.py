"""Functions that must not be called, or only in one place."""

import re
from typing import List

from tidy import Files, Finding, c_tree, code_only, line_of, run

NEVER = {
    "sprintf": "snprintf, or strbuf",
    "vsprintf": "vsnprintf, or strbuf",
    "strcpy": "memcpy with a known length, or strbuf",
    "strcat": "strbuf",
    "strncpy": "memcpy with a known length",
    "strtok": "strchr or strcspn",
    "atoi": "a parser that reports errors",
    "atol": "a parser that reports errors",
    "atof": "a parser that reports errors",
    "gets": "fgets",
    "system": "posix_spawn with an argument list",
    "rand": "a seed that is passed in",
    "srand": "a seed that is passed in",
    "time": "the clock that is passed in",
    "usleep": "a wait that can be interrupted",
    "alloca": "the arena",
    "localtime": "gmtime_r: times are UTC",
    "gmtime": "gmtime_r",
    "strerror": "strerror_r or %m, which are thread-safe",
}
# name -> (where it may be called, why not elsewhere); tests may call all of these.
ONLY_IN = {
    "getenv": (r"src/settings/settings\w*\.c|src/kube/\w*auth\w*\.c|src/bin/.*",
               "settings are read in one place"),
    "secure_getenv": (r"src/settings/settings\w*\.c|src/kube/\w*auth\w*\.c|src/bin/.*",
                      "settings are read in one place"),
    "exit": (r"src/bin/.*", "only a program may exit"),
}
CALL = re.compile(r"(?<![\w.])(?<!->)(\w+)\s*\(")


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        code = code_only(text)
        for match in CALL.finditer(code):
            name = match.group(1)
            line = line_of(code, match.start())
            if name in NEVER:
                found.append(Finding(path, line, f"{name}() is banned: use {NEVER[name]}"))
            elif name in ONLY_IN and not path.startswith("tests/"):
                where, why = ONLY_IN[name]
                if not re.fullmatch(where, path):
                    found.append(Finding(path, line, f"{name}() does not belong here: {why}"))
    return found


BAD = [{"src/core/x.c": f"void f(void)\n{{\n    x = {name}(a);\n}}\n"} for name in NEVER]
BAD += [{"src/core/x.c": f"    (void){name} (a);\n"} for name in ONLY_IN]
GOOD = [
    {"src/core/x.c": "/* time(0) */ a = \"atoi(x)\"; b->time(c); ops.exit(1); mytime(d);\n"},
    {"src/bin/milligpud.c": "exit(1);\n", "src/kube/kube_auth.c": 'getenv("HOME");\n'},
    {"tests/unit/x.c": 'getenv("SEED"); _exit(1);\n'},
]

run(check, c_tree(), BAD, GOOD)
