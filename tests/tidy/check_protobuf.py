"""What the decoders of Pods and Nodes read, the tables of wire_kube_protobuf.c name: else it is lost in protobuf."""

import re
from typing import List

from tidy import Files, Finding, line_of, run, tree

TABLES = "src/wire/kube/wire_kube_protobuf.c"
DECODERS = tuple(f"src/wire/kube/{name}.c" for name in (
    "kube_read", "wire_kube_pod", "wire_kube_pod_scheduling", "wire_kube_node", "wire_kube_demands", "wire_kube_list"))
KEYS = re.compile(r"const char \*const \w*keys?\[\] = \{([^}]*)\}")
MEMBER = re.compile(r"\b(?:MEMBER|INNER)\(\s*\d+,\s*\"(\w+)\"")
# Members of an annotation, which is one text, and of a watch event, which is no object.
OTHERS = {"boot", "key", "leaving", "node", "object", "pod"}


def check(files: Files) -> List[Finding]:
    known = set(MEMBER.findall(files.get(TABLES, ""))) | OTHERS
    found = []
    for path in DECODERS:
        text = files.get(path, "")
        for keys in KEYS.finditer(text):
            found += [Finding(path, line_of(text, keys.start()), f"\"{key}\" is not in {TABLES}")
                      for key in re.findall(r"\"(\w+)\"", keys.group(1)) if key not in known]
    return found


BASE = {TABLES: "MESSAGE(Pod, MEMBER(1, \"metadata\", MESSAGE),\n    INNER(2,\n    \"spec\", MESSAGE, PodSpec));\n"}
BAD = [
    {**BASE, DECODERS[1]: "static const char *const pod_keys[] = {\"metadata\", \"spec\", \"status\"};\n"},
    {**BASE, DECODERS[4]: "    static const char *const keys[] = {\n        \"weight\"};\n"},
]
GOOD = [
    {**BASE, DECODERS[1]: "static const char *const pod_keys[] = {\"metadata\", \"spec\"};\n"},
    {**BASE, DECODERS[3]: "static const char *const keys[] = {\"pod\", \"node\", \"boot\"};\n"},
]

run(check, tree(".c", under=("src/wire/kube",)), BAD, GOOD)
