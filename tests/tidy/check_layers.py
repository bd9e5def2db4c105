"""Which layer may include which: the include lines must follow the table of the architecture."""

import re
from typing import Iterator, List, Optional

from tidy import Files, Finding, LAYERS, code_only, layer_of, line_of, run, tree

MAY_INCLUDE = {
    "base": {"base"},
    "core": {"core", "base"},
    "wire": {"wire", "core", "base"},
    "run": {"run", "base"},
    "sign": {"sign", "run", "base"},
    "nri": {"nri", "base"},
    "nvml": {"nvml", "run", "base"},
    "store": {"store", "run", "core", "base"},
    "doc": {"doc", "wire", "core", "base"},
    "kube": {"kube", "doc", "run", "wire", "core", "base"},
    "fake_apiserver": {"fake_apiserver", "kube", "doc", "run", "wire", "core", "base"},
    "http": {"http", "run", "base"},
    "settings": {"settings", "doc", "http", "run", "base"},
    "agent": {"agent", "settings", "http", "kube", "doc", "nvml", "nri", "sign", "wire", "run", "core", "base"},
    "state": {"state", "settings", "store", "sign", "wire", "run", "core", "base"},
    "scheduler": {"scheduler", "state", "settings", "http", "wire", "run", "core", "base"},
    "sync": {"sync", "state", "settings", "store", "sign", "kube", "wire", "run", "core", "base"},
    "health": {"health", "scheduler", "sync", "state", "settings", "store", "wire", "run", "core", "base"},
    "writer": {"writer", "health", "scheduler", "sync", "state", "settings", "store", "sign", "wire", "run", "core",
               "base"},
    "admin": {"admin", "health", "scheduler", "sync", "state", "settings", "store", "sign", "fake_apiserver", "http",
              "wire", "run", "core", "base"},
    "daemon": set(LAYERS) - {"bin"},
    "bin": set(LAYERS),
}

THIRD_PARTY = {
    "store": r"sqlite3\.h",
    "sign": r"gnutls/.*",
    "nri": r"protobuf-c/.*|nri\.pb-c\.h",
    "doc": r"yaml\.h",
    "kube": r"curl/.*",
    "http": r"microhttpd\.h|gnutls/.*",
    "daemon": r"seccomp\.h",
    "bin": r"libsmartcols(/libsmartcols)?\.h|curl/.*",
}

# base, core and wire: only language and memory, nothing that could do I/O, tell the time or lock.
PURE = "assert ctype errno inttypes limits stdalign stdarg stdbool stddef stdint stdlib string"
LIBC = PURE + (
    " dirent endian err fcntl fnmatch getopt glob ifaddrs langinfo libgen locale malloc math netdb"
    " poll pthread pwd regex sched semaphore setjmp signal spawn stdatomic stdio strings sysexits syslog"
    " termios threads time unistd wchar"
)
LIBC_FOLDERS = r"(sys|netinet|arpa|net|linux)/.*"
EXTRA = {
    "base": {"stdio"},
    "nvml": {"dlfcn"},  # the driver's library is there or not, and is found at run time
    "core": {"stdatomic"},  # reference counts of snapshots
}
GENERATED = {"milligpu_version.h": {"health", "agent", "admin", "daemon", "bin"}}

# A public header belongs to the layer that has a source file of its name. Headers without
# one are listed here.
HEADER_LAYER = {
    **dict.fromkeys("alloc annotations arena base err limits map names random strbuf text".split(), "base"),
    **dict.fromkeys("allocation filter host inventory ledger node place pod".split(), "core"),
    **dict.fromkeys("quantity reason reconcile request rule_set snapshot".split(), "core"),
    **dict.fromkeys("json wire_extender wire_kube wire_admin".split(), "wire"),
    **dict.fromkeys("clock file log metric metrics node_metrics queue".split(), "run"),
    **dict.fromkeys("store".split(), "store"),
    **dict.fromkeys("kube reflector".split(), "kube"),
    **dict.fromkeys("http".split(), "http"),
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def header_layer(name: str, files: Files) -> Optional[str]:
    stem = name.rsplit(".", 1)[0]
    owners = [layer for layer in LAYERS if f"src/{layer}/{stem}.c" in files]
    if len(owners) == 1:
        return owners[0]
    return HEADER_LAYER.get(stem)


def judge_system(layer: str, header: str) -> Optional[str]:
    stem = header[:-2]
    if layer in ("base", "core", "wire"):
        if stem in PURE.split() or stem in EXTRA.get(layer, set()):
            return None
        return f"{layer} is pure and may not include <{header}>"
    if stem in EXTRA.get(layer, set()):
        return None
    if stem in LIBC.split() or re.fullmatch(LIBC_FOLDERS, header):
        return None
    if re.fullmatch(THIRD_PARTY.get(layer, "(?!)"), header):
        return None
    return f"{layer} may not include <{header}>"


def judge_own(layer: str, path: str, header: str, files: Files) -> Optional[str]:
    if header in GENERATED:
        return None if layer in GENERATED[header] else f"{layer} may not include {header}"
    if header.startswith("milligpu/"):
        target = header_layer(header[len("milligpu/"):], files)
        if f"include/{header}" not in files:
            return f"there is no include/{header}"
        if target is None:
            return f"the layer of {header} is unknown: add it to HEADER_LAYER in check_layers.py"
        if target not in MAY_INCLUDE[layer]:
            return f"{layer} may not include {header}, which belongs to {target}"
        return None
    first = header.split("/")[0]
    if first in LAYERS and "/" in header and first != layer:
        return f"{header} is private to {first}; what other layers use belongs in include/milligpu"
    if ".." in header:
        return f"{header} leads out of its folder"
    return None


def includes(text: str) -> Iterator[re.Match]:
    # Skip commented includes; read the name from the text, because code_only() blanks it.
    code = code_only(text)
    for match in INCLUDE.finditer(text):
        if code[match.start(): match.end()].lstrip().startswith("#"):
            yield match


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        layer = layer_of(path)
        public = path.startswith("include/milligpu/")
        if public:
            layer = header_layer(path.split("/")[-1], files) or ""
            if not layer:
                message = "its layer is unknown: add it to HEADER_LAYER in check_layers.py"
                found.append(Finding(path, 1, message))
                continue
        if layer not in LAYERS:
            continue
        for match in includes(text):
            kind, header = match.groups()
            if kind == "<":
                fault = judge_system(layer, header)
                if public and re.fullmatch("|".join(THIRD_PARTY.values()), header):
                    fault = f"a public header may not include <{header}>"
            else:
                fault = judge_own(layer, path, header, files)
            if fault:
                found.append(Finding(path, line_of(text, match.start()), fault))
    return found


BASE = {"include/milligpu/base.h": "", "include/milligpu/place.h": "", "src/core/place.c": "",
        "include/milligpu/http.h": "", "src/http/http.c": ""}
BAD = [
    {**BASE, "src/base/x.c": '#include "milligpu/place.h"\n'},
    {**BASE, "src/core/x.c": "#include <time.h>\n"},
    {**BASE, "src/core/x.c": "#include <stdio.h>\n"},
    {**BASE, "src/wire/x.c": "# include <jansson.h>\n"},
    {**BASE, "src/store/x.c": '#include "milligpu/http.h"\n'},
    {**BASE, "src/http/x.c": '#include "milligpu/place.h"\n'},
    {**BASE, "src/http/x.c": "#include <sqlite3.h>\n"},
    {**BASE, "src/http/x.c": "#include <dlfcn.h>\n"},
    {**BASE, "src/daemon/x.c": '#include "store/inner.h"\n'},
    {**BASE, "src/daemon/x.c": "#include <curl/curl.h>\n"},
    {**BASE, "src/core/x.c": '#include "milligpu_version.h"\n'},
    {**BASE, "src/core/x.c": '#include "milligpu/gone.h"\n'},
    {**BASE, "include/milligpu/place.h": "#include <sqlite3.h>\n"},
    {**BASE, "include/milligpu/http.h": '#include "milligpu/place.h"\n'},
    {**BASE, "include/milligpu/orphan.h": ""},
]
GOOD = [
    {**BASE, "src/core/x.c": '#include <string.h>\n#include "milligpu/place.h"\n#include "x.h"\n'},
    {**BASE, "src/core/x.c": "/*\n#include <time.h>\n*/\n"},
    {**BASE, "src/store/x.c": '#include <sqlite3.h>\n#include <time.h>\n#include "store/x.h"\n'},
    {**BASE, "src/daemon/x.c": '#include "milligpu/http.h"\n#include "milligpu_version.h"\n'},
]

run(check, tree(".c", ".h", ".def", under=("src", "include")), BAD, GOOD)
