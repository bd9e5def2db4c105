"""Which layer, and which room of a layer, may include which: the include lines must follow the tables here."""

import collections
import re
from typing import Iterator, List, Optional, Tuple

from tidy import Files, Finding, LAYERS, code_only, line_of, run, tree

MAY_INCLUDE = {
    "base": {"base"},
    "core": {"core", "base"},
    "wire": {"wire", "core", "base"},
    "run": {"run", "base"},
    "sign": {"sign", "run", "base"},
    "nri": {"nri", "base"},
    "nvml": {"nvml", "run", "base"},
    "document": {"document", "wire", "run", "core", "base"},
    "store": {"store", "run", "core", "base"},
    "kube": {"kube", "document", "run", "wire", "core", "base"},
    "fake_apiserver": {"fake_apiserver", "kube", "document", "run", "wire", "core", "base"},
    "http": {"http", "run", "base"},
    "settings": {"settings", "document", "http", "run", "base"},
    "agent": {"agent", "settings", "http", "kube", "document", "nvml", "nri", "sign", "wire", "run", "core", "base"},
    "usage": {"usage", "store", "sign", "wire", "run", "core", "base"},
    "waiting": {"waiting", "run", "core", "base"},
    "spine": {"spine", "waiting", "usage", "settings", "store", "sign", "wire", "run", "core", "base"},
    "webhook": {"webhook", "spine", "waiting", "settings", "http", "wire", "run", "core", "base"},
    "sync": {"sync", "spine", "waiting", "usage", "settings", "store", "sign", "kube", "wire", "run", "core", "base"},
    "selfcheck": {"selfcheck", "webhook", "sync", "spine", "waiting", "usage", "settings", "store", "wire", "run", "core",
                  "base"},
    "writer": {"writer", "selfcheck", "webhook", "sync", "spine", "waiting", "usage", "settings", "store", "sign", "wire",
               "run", "core", "base"},
    "admin": {"admin", "selfcheck", "webhook", "sync", "spine", "waiting", "usage", "settings", "store", "sign",
              "fake_apiserver", "http", "wire", "run", "core", "base"},
    "daemon": set(LAYERS) - {"ctl", "lab", "bin"},
    "ctl": {"ctl", "settings", "store", "kube", "document", "wire", "run", "core", "base"},
    "lab": {"lab", "ctl", "fake_apiserver", "store", "document", "wire", "run", "core", "base"},
    "bin": set(LAYERS),
}

# The rooms of a layer, from low to high: a room may include those before it. "": the files beside the rooms.
ROOMS = {
    "core": ["facts", "rules", "node", "place", "rank", "ledger", "answer"],
    "wire": ["json", "kube", "extender", "usage", "admin"],
    "document": ["", "policy"],
    "store": ["", "schema", "rows", "usage", "past", "copy", "file"],
    "agent": ["common", "gpu", "grant", "mps", "meter", ""],
    "writer": ["", "bind", "cluster"],
    "admin": ["", "answers", "usage"],
    "ctl": ["", "convert", "commands"],
    "lab": ["cluster", "play", "simulate", "backtest", ""],
}
FILES_MAX = 20  # sources of a room

# Headers beside their sources are private to their layer, but the parts of a program know each other.
PRIVATE_TO = {"agent": {"agent", "bin"}, "ctl": {"ctl", "lab", "bin"}, "lab": {"lab", "bin"}}

THIRD_PARTY = {
    "store": r"sqlite3\.h",
    "sign": r"gnutls/.*",
    "nri": r"protobuf-c/.*|nri\.pb-c\.h",
    "document": r"yaml\.h",
    "kube": r"(curl|nghttp2|openssl)/.*",
    "http": r"microhttpd\.h|gnutls/.*",
    "daemon": r"seccomp\.h",
    "ctl": r"libsmartcols(/libsmartcols)?\.h|curl/.*",
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
GENERATED = {"milligpu_version.h": {"selfcheck", "agent", "admin", "daemon", "ctl", "bin"}}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def home_of(path: str) -> Tuple[str, str]:
    """The layer and the room of a file of src or include; "" where it is in none."""
    parts = path.split("/")
    folders = parts[1:-1] if parts[0] == "src" else parts[2:-1] if path.startswith("include/milligpu/") else []
    layer, room = (folders + ["", ""])[:2]
    return layer, room


def resolve(path: str, header: str, files: Files) -> Optional[str]:
    """The file that an include line names."""
    beside = f"{path.rsplit('/', 1)[0]}/{header}"
    return next((found for found in (beside, f"src/{header}", f"include/{header}") if found in files), None)


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


def judge_own(path: str, header: str, files: Files) -> Optional[str]:
    layer, room = home_of(path)
    if header in GENERATED:
        return None if layer in GENERATED[header] else f"{layer} may not include {header}"
    if ".." in header:
        return f"{header} leads out of its folder"
    target = resolve(path, header, files)
    if target is None:
        return f"there is no {header}"
    other, other_room = home_of(target)
    if target.startswith("src/") and layer not in PRIVATE_TO.get(other, {other}):
        return f"{header} is private to {other}; what other layers use belongs in include/milligpu"
    if path.startswith("include/") and target.startswith("src/"):
        return f"a public header may not include {header}, which is private to {other}"
    if other not in MAY_INCLUDE[layer]:
        return f"{layer} may not include {header}, which belongs to {other}"
    order = ROOMS.get(layer, [""])
    if other == layer and order.index(other_room) > order.index(room):
        return f"{room or layer} may not include {header}: the room {other_room or layer} is above it"
    return None


def includes(text: str) -> Iterator[re.Match]:
    # Skip commented includes; read the name from the text, because code_only() blanks it.
    code = code_only(text)
    for match in INCLUDE.finditer(text):
        if code[match.start(): match.end()].lstrip().startswith("#"):
            yield match


def check_includes(path: str, text: str, files: Files) -> Iterator[Finding]:
    layer, room = home_of(path)
    if layer not in LAYERS or room not in ROOMS.get(layer, [""]):
        yield Finding(path, 1, "its layer or room is unknown: add it to check_layers.py")
        return
    for match in includes(text):
        kind, header = match.groups()
        fault = judge_system(layer, header) if kind == "<" else judge_own(path, header, files)
        if kind == "<" and path.startswith("include/") and re.fullmatch("|".join(THIRD_PARTY.values()), header):
            fault = f"a public header may not include <{header}>"
        if fault:
            yield Finding(path, line_of(text, match.start()), fault)


def check(files: Files) -> List[Finding]:
    found = [finding for path, text in files.items() for finding in check_includes(path, text, files)]
    rooms = collections.Counter(path.rsplit("/", 1)[0] for path in files if path.endswith(".c"))
    return found + [Finding(folder, 1, f"{count} sources in one folder, more than {FILES_MAX}: make rooms")
                    for folder, count in rooms.items() if count > FILES_MAX]


BASE = {"include/milligpu/base/base.h": "", "include/milligpu/core/place/place.h": "", "src/core/place/place.c": "",
        "src/core/answer/filter.h": "", "include/milligpu/http/http.h": "", "src/http/http.c": "", "src/ctl/ctl.h": ""}
BAD = [
    {**BASE, "src/base/x.c": '#include "milligpu/core/place/place.h"\n'},
    {**BASE, "src/core/place/x.c": "#include <time.h>\n"},
    {**BASE, "src/core/place/x.c": "#include <stdio.h>\n"},
    {**BASE, "src/core/place/x.c": '#include "core/answer/filter.h"\n'},
    {**BASE, "src/core/facts/x.c": '#include "milligpu/core/place/place.h"\n'},
    {**BASE, "src/core/attic/x.c": ""},
    {**BASE, "src/attic/x.c": ""},
    {**BASE, "src/wire/json/x.c": "# include <jansson.h>\n"},
    {**BASE, "src/store/x.c": '#include "milligpu/http/http.h"\n'},
    {**BASE, "src/http/x.c": '#include "milligpu/core/place/place.h"\n'},
    {**BASE, "src/http/x.c": "#include <sqlite3.h>\n"},
    {**BASE, "src/http/x.c": "#include <dlfcn.h>\n"},
    {**BASE, "src/daemon/x.c": '#include "core/answer/filter.h"\n'},
    {**BASE, "src/daemon/x.c": '#include "ctl/ctl.h"\n'},
    {**BASE, "src/daemon/x.c": "#include <curl/curl.h>\n"},
    {**BASE, "src/core/place/x.c": '#include "milligpu_version.h"\n'},
    {**BASE, "src/core/place/x.c": '#include "milligpu/gone.h"\n'},
    {**BASE, "include/milligpu/core/place/place.h": "#include <sqlite3.h>\n"},
    {**BASE, "include/milligpu/core/answer/x.h": '#include "core/answer/filter.h"\n'},
    {**BASE, "include/milligpu/http/http.h": '#include "milligpu/core/place/place.h"\n'},
    {**BASE, "include/milligpu/orphan.h": ""},
    {f"src/http/{number}.c": "" for number in range(FILES_MAX + 1)},
]
GOOD = [
    {**BASE, "src/core/rank/x.c": '#include <string.h>\n#include "milligpu/core/place/place.h"\n#include "x.h"\n',
     "src/core/rank/x.h": ""},
    {**BASE, "src/core/place/x.c": "/*\n#include <time.h>\n*/\n"},
    {**BASE, "src/store/x.c": '#include <sqlite3.h>\n#include <time.h>\n#include "x.h"\n', "src/store/x.h": ""},
    {**BASE, "src/daemon/x.c": '#include "milligpu/http/http.h"\n#include "milligpu_version.h"\n'},
    {**BASE, "src/lab/play/x.c": '#include "ctl/ctl.h"\n'},
]

run(check, tree(".c", ".h", ".def", under=("src", "include")), BAD, GOOD)
