#!/usr/bin/env python3
"""chart.py [--check] [--kubectl KUBECTL] - writes charts/milligpu from the kustomizations in manifests/

manifests/ is the only source. kubectl builds every overlay, alone and with each component. What differs between two
builds is guarded by `wiring` or `components` of the chart's values; what an operator usually changes (images, the
namespace, resources, ...) is replaced by a value, whose default is what the manifests say. Comments come from the files
in manifests/. NOTES.txt, _helpers.tpl, uninstall.yaml and README.md of the chart are written by hand, apart from the
table of values in README.md.

    scripts/chart.py            writes the chart
    scripts/chart.py --check    writes nothing; fails if the chart is not what would be written
"""

import argparse
import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
MANIFESTS = os.path.join(TOP, "manifests")
CHART = os.path.join(TOP, "charts", "milligpu")
HAND_WRITTEN = {"templates/NOTES.txt", "templates/_helpers.tpl", "templates/uninstall.yaml", "README.md"}
OLDER = "before-1.36"  # the component without which every wiring needs Kubernetes 1.36
WIDTH = 120
OWN_NAMESPACE = "milligpu-system"
RELEASE = "\ue000"  # stands for the release's namespace until the text is written
HASHED = re.compile(r"-[bcdfghkmt2456789]{10}$")
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time, if PyYAML was built with libyaml


# ---- what kubectl builds -------------------------------------------------------------------------------------------


class Kustomize:
    """Builds wirings with components, each combination once."""

    def __init__(self, kubectl):
        self.kubectl = kubectl
        self.built = {}

    def build(self, wiring, components):
        """The objects by (kind, namespace, name), or None if kubectl refuses the combination."""
        key = (wiring, tuple(components))
        if key not in self.built:
            self.built[key] = self._build(wiring, components)
        return self.built[key]

    def _build(self, wiring, components):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            here = {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": [os.path.relpath(os.path.join(MANIFESTS, "overlays", wiring), folder)],
                "components": [os.path.relpath(os.path.join(MANIFESTS, "components", c), folder) for c in components],
            }
            with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
                yaml.safe_dump(here, file)
            done = subprocess.run([self.kubectl, "kustomize", folder], capture_output=True, text=True)
        if done.returncode != 0:
            return None
        text = done.stdout
        for name in {o["metadata"]["name"] for o in yaml.safe_load_all(text) if o["kind"] == "ConfigMap"}:
            text = text.replace(name, HASHED.sub("", name))
        objects = list(yaml.safe_load_all(text.replace(OWN_NAMESPACE, RELEASE)))
        return {identity(o): o for o in objects if identity(o) != ("Namespace", "", RELEASE)}


def identity(o):
    return o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]


def wirings_and_their_components():
    """The overlays, and the components that one of them has by itself. An overlay with OLDER is no wiring of its own."""
    wirings, contained = [], set()
    for wiring in sorted(os.listdir(os.path.join(MANIFESTS, "overlays"))):
        with open(os.path.join(MANIFESTS, "overlays", wiring, "kustomization.yaml"), encoding="utf-8") as file:
            kustomization = yaml.safe_load(file)
        names = {os.path.basename(component) for component in kustomization.get("components", [])}
        if OLDER not in names:
            wirings.append(wiring)
            contained |= names
    return wirings, contained


class Variants:
    """All builds that the chart is made of: by configuration, which is (wiring, components)."""

    def __init__(self, kustomize):
        self.wirings, contained = wirings_and_their_components()
        self.components = sorted({*os.listdir(os.path.join(MANIFESTS, "components"))} - contained)
        self.needs = {}
        self.objects = {}
        for wiring in self.wirings:
            self.objects[wiring, ()] = must(kustomize.build(wiring, ()), f"overlay {wiring} does not build")
        for component in self.components:
            self.needs[component] = self._find_need(kustomize, component)
            for wiring in self.wirings:
                both = (*self.needs[component], component)
                self.objects[wiring, both] = must(kustomize.build(wiring, both), f"{both} do not build")
        self.removed = {component for component in self.components if self._is_removed(kustomize, component)}
        self.literals = self._find_literals()

    def _find_need(self, kustomize, component):
        """A component that patches what only another one has builds with that one only."""
        for need in [(), *((other,) for other in self.components if other != component)]:
            if kustomize.build(self.wirings[0], (*need, component)) is not None:
                return need
        sys.exit(f"chart.py: component {component} builds neither alone nor with one other")

    def _is_removed(self, kustomize, component):
        """Whether OLDER leaves nothing of what a component adds."""
        wiring, needs = self.wirings[0], self.needs[component]
        return component != OLDER and kustomize.build(wiring, (*needs, component, OLDER)) == kustomize.build(
            wiring, (*needs, OLDER))

    def _find_literals(self):
        """Conditions of templates, simplest first, each with the configurations in which it is true."""
        every = set(self.objects)
        literals = []
        for wiring in self.wirings:
            literals.append((f'eq .Values.wiring "{wiring}"', {c for c in every if c[0] == wiring}))
            literals.append((f'ne .Values.wiring "{wiring}"', {c for c in every if c[0] != wiring}))
        for component in self.components:
            where = {c for c in every if component in c[1]}
            literals.append((component_value(component), where))
            literals.append((f"not {component_value(component, nested=True)}", every - where))
        return literals

    def condition(self, where, within):
        """The condition that holds in the configurations `where` out of `within`; None if that is all of them."""
        if where == within:
            return None
        fitting = [(text, which & within) for text, which in self.literals if which & within and which & within <= where]
        for text, which in fitting:
            if which == where:
                return text
        for (one, first), (other, second) in itertools.combinations(self.literals, 2):
            if first & second & within == where:
                return " ".join(["and", *(text if text.startswith(".") else f"({text})" for text in (one, other))])
        chosen, left = [], set(where)
        for text, which in sorted(fitting, key=lambda literal: -len(literal[1])):
            if which & left:
                chosen.append(text if text.startswith(".") else f"({text})")
                left -= which
        if left:
            sys.exit(f"chart.py: no condition of the chart's values is true in {sorted(where)} only")
        return "or " + " ".join(chosen)


def component_value(component, nested=False):
    if re.fullmatch(r"\w+", component):
        return f".Values.components.{component}"
    text = f'index .Values.components "{component}"'
    return f"({text})" if nested else text


def must(value, sentence):
    if value is None:
        sys.exit(f"chart.py: {sentence}")
    return value


# ---- comments and the order of keys, from the sources ---------------------------------------------------------------


class Sources:
    """What the files in manifests/ have beyond the data: comments, the order of keys, and the file itself."""

    def __init__(self):
        self.files, self.before, self.beside, self.order = {}, {}, {}, {}
        self.lines, self.taken = [], set()
        paths = sorted(glob.glob(os.path.join(MANIFESTS, "**", "*.yaml"), recursive=True))
        for path in sorted(paths, key=lambda path: "patch" in os.path.basename(path)):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.lines, self.taken = text.split("\n"), set()
            for document in yaml.compose_all(text):
                self._read(os.path.relpath(path, MANIFESTS), document)

    def _read(self, path, document):
        o = yaml.safe_load(yaml.serialize(document)) if isinstance(document, yaml.MappingNode) else {}
        if not isinstance(o.get("metadata"), dict) or "name" not in o["metadata"]:
            return
        key = identity(o)
        key = (key[0], key[1].replace(OWN_NAMESPACE, RELEASE), key[2])
        self.files.setdefault(key, path)
        self._walk(key, document, ())

    def _walk(self, key, node, path):
        if isinstance(node, yaml.MappingNode):
            names = [name.value for name, _ in node.value]
            known = self.order.setdefault((key, path), [])
            known.extend(name for name in names if name not in known)
            for name, value in node.value:
                self._note(key, (*path, name.value), name, value)
                self._walk(key, value, (*path, name.value))
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                at = (*path, item_identity(yaml.safe_load(yaml.serialize(item))))
                self._note(key, at, item, item)
                self._walk(key, item, at)

    def _note(self, key, path, node, value):
        comment, line = [], node.start_mark.line - 1
        while line >= 0 and line not in self.taken and re.match(r" *#", self.lines[line]):
            self.taken.add(line)  # an item and its first key begin on one line; the comment is the item's
            comment.insert(0, self.lines[line].strip())
            line -= 1
        if comment:
            self.before.setdefault((key, path), comment)
        if isinstance(value, yaml.ScalarNode) and value.style not in (">", "|"):
            rest = self.lines[value.end_mark.line][value.end_mark.column:].strip()
            if rest.startswith("#"):
                self.beside.setdefault((key, path), rest)


def item_identity(item):
    """How items of one list are told apart in all builds."""
    if isinstance(item, dict):
        named = [f"{key}={item[key]}" for key in ("name", "mountPath") if key in item]
        if named:
            return ",".join(named)
    return json.dumps(item, sort_keys=True).replace(OWN_NAMESPACE, RELEASE)


# ---- writing templates ----------------------------------------------------------------------------------------------


class Writer:
    """Writes one object, as it is in each configuration, as lines of a template."""

    def __init__(self, variants, sources, key):
        self.variants, self.sources, self.key = variants, sources, key
        self.open_guard = None  # the list of lines, its length and the condition, where a guard was closed last

    def mapping(self, values, path, indent):
        keys = self.order_of_keys(values, path)
        lines = []
        for name in keys:
            here = {c: v[name] for c, v in values.items() if name in v}
            entry = self.comments((*path, name), indent) + self.entry(name, here, (*path, name), indent)
            self.append_guarded(lines, entry, set(here), set(values))
        return lines + self.additions(values, path, indent)

    def order_of_keys(self, values, path):
        known = self.sources.order.get((self.key, path), [])
        there = {name for value in values.values() for name in value}
        first = ["apiVersion", "kind", "metadata", "name", "namespace", "labels"] if path in ((), ("metadata",)) else []
        rank = {name: at for at, name in reversed(list(enumerate(first + known)))}
        return sorted(there, key=lambda name: (rank.get(name, len(rank) + 99), name))

    def comments(self, path, indent):
        return [" " * indent + escaped(line) for line in self.sources.before.get((self.key, path), [])]

    def append_guarded(self, lines, more, where, within):
        """Appends lines that are there in some configurations; neighbours with one condition share its guard."""
        condition = self.variants.condition(where, within)
        if condition is None:
            self.open_guard = None
            lines += more
        elif self.open_guard == (id(lines), len(lines), condition):
            lines[-1:] = [*more, "{{- end }}"]
        else:
            lines += [f"{{{{- if {condition} }}}}", *more, "{{- end }}"]
        self.open_guard = (id(lines), len(lines), condition)

    def entry(self, name, values, path, indent):
        replaced = self.replacement(name, values, path, indent)
        return self.plain_entry(name, values, path, indent) if replaced is None else replaced

    def plain_entry(self, name, values, path, indent):
        pad, kinds = " " * indent, {type(value) for value in values.values()}
        if kinds == {dict} and any(values.values()):
            return [f"{pad}{name}:"] + self.mapping(values, path, indent + 2)
        if kinds == {list} and any(values.values()):
            return [f"{pad}{name}:"] + self.sequence(values, path, indent + 2)
        return self.alternatives(values, lambda value: scalar(f"{pad}{name}:", value, indent, self.beside(path)))

    def beside(self, path):
        comment = self.sources.beside.get((self.key, path))
        return f" {escaped(comment)}" if comment else ""

    def alternatives(self, values, written):
        """The lines of each distinct value, under the condition that it is in force."""
        distinct = {}
        for configuration, value in values.items():
            distinct.setdefault(json.dumps(value, sort_keys=True), set()).add(configuration)
        lines, within = [], set(values)
        texts = sorted(distinct, key=lambda text: len(distinct[text]))  # the usual value becomes the else
        for at, text in enumerate(texts):
            if at == len(texts) - 1:
                lines += ["{{- else }}"] if at else []
            else:
                word = "else if" if at else "if"
                lines.append(f"{{{{- {word} {self.variants.condition(distinct[text], within)} }}}}")
                within = within - distinct[text]
            lines += written(json.loads(text))
        return lines + (["{{- end }}"] if len(texts) > 1 else [])

    def sequence(self, values, path, indent):
        special = self.special_sequence(values, path, indent)
        if special is not None:
            return special
        items = {c: {item_identity(item): item for item in value} for c, value in values.items()}
        lines = []
        for name in in_one_order(items.values()):
            here = {c: its[name] for c, its in items.items() if name in its}
            at = (*path, name)
            item = self.comments(at, indent) + self.item(here, at, indent)
            self.append_guarded(lines, item, set(here), set(values))
        return lines

    def item(self, values, path, indent):
        pad = " " * indent
        if not all(isinstance(value, dict) for value in values.values()):
            return self.alternatives(values, lambda value: scalar(f"{pad}-", value, indent, self.beside(path)))
        first, *rest = self.mapping(values, path, indent + 2)
        if not first.strip().startswith("#") and not first.startswith("{{"):
            return [f"{pad}- {first.strip()}", *rest]
        return [f"{pad}-", first, *rest]

    # Values of operators. Each rule names the value that replaces a text of the manifests.

    def replacement(self, name, values, path, indent):
        """The lines that take the place of an entry, or None."""
        pad, kind = " " * indent, self.key[0]
        if path == ("metadata", "labels"):
            return self.plain_entry(name, values, path, indent) + [pad + '  {{- include "milligpu.labels" . | nindent 4 }}']
        if kind == "ConfigMap" and path == ("data",):
            return [f"{pad}data:"] + self.data(values, indent + 2)
        if name == "image" and isinstance(path[-2], str) and path[-2].startswith("name="):
            return [f'{pad}image: {{{{ include "milligpu.image" (index .Values.images "{image_name(values)}") | quote }}}}']
        if name == "resources" and path[-2].startswith("name="):
            return self.unless_set(f'index .Values.resources "{path[-2][5:]}"', name, values, path, indent)
        if path in POD_PATHS:
            return self.pod_entry(name, values, path, indent)
        if kind == "StatefulSet" and path[-3:] == ("resources", "requests", "storage"):
            return [f"{pad}storage: {{{{ .Values.storage.size }}}}"]
        if kind == "PersistentVolumeClaim" and path[-3:] == ("resources", "requests", "storage"):
            return [f"{pad}storage: {{{{ .Values.backup.size }}}}"]
        if kind == "CronJob" and path in (("spec", "schedule"), ("spec", "timeZone")):
            return [f"{pad}{name}: {{{{ .Values.backup.{name} | quote }}}}"]
        if kind == "Service" and path == ("spec", "clusterIP"):
            return [f"{pad}clusterIP: {{{{ .Values.webhook.clusterIP }}}}"]
        if kind == "NetworkPolicy" and name == "kubernetes.io/metadata.name" and set(values.values()) == {"monitoring"}:
            return [f"{pad}{name}: {{{{ .Values.monitoring.namespace }}}}"]
        if self.key == ACCOUNTS[0] and path == ACCOUNTS[1]:
            return [f"{pad}{name}: {{{{ .Values.guard.accounts | toJson | replace \"\\\"\" \"'\" | quote }}}}"]
        return None

    def unless_set(self, value, name, values, path, indent):
        pad = " " * indent
        return [f"{{{{- with {value} }}}}", f"{pad}{name}:", f"{pad}  {{{{- toYaml . | nindent {indent + 2} }}}}",
                "{{- else }}", *self.plain_entry(name, values, path, indent), "{{- end }}"]

    def pod_entry(self, name, values, path, indent):
        if name == "runtimeClassName":
            return [f'{{{{- with (index .Values.pods "{self.key[2]}").{name} }}}}', " " * indent + f"{name}: {{{{ . }}}}",
                    "{{- end }}"]
        if name in POD_SETTINGS:
            return self.unless_set(f'(index .Values.pods "{self.key[2]}").{name}', name, values, path, indent)
        return None

    def additions(self, values, path, indent):
        """Lines at the end of a mapping: what the manifests do not say and the values may."""
        pad, lines = " " * indent, []
        if path[-3:] == ("spec", "template", "spec"):
            lines += [f"{{{{- with .Values.imagePullSecrets }}}}", f"{pad}imagePullSecrets:",
                      f"{pad}  {{{{- toYaml . | nindent {indent + 2} }}}}", "{{- end }}"]
        if path == ("spec", "template", "spec"):
            for name in POD_SETTINGS:
                if not any(name in value for value in values.values()):
                    lines += [f'{{{{- with (index .Values.pods "{self.key[2]}").{name} }}}}', f"{pad}{name}:",
                              f"{pad}  {{{{- toYaml . | nindent {indent + 2} }}}}", "{{- end }}"]
        if self.key[0] == "StatefulSet" and path == ("spec", "template", "metadata"):
            lines += [f"{pad}annotations:", f"{pad}  # a changed setting restarts the pod",
                      f'{pad}  checksum/config: {{{{ include "milligpu.checksum" . }}}}']
        if self.key[0] == "StatefulSet" and path[:2] == ("spec", "volumeClaimTemplates") and path[3:] == ("spec",):
            lines += ["{{- with .Values.storage.className }}", f"{pad}storageClassName: {{{{ . }}}}", "{{- end }}"]
        if self.key[0] == "PersistentVolumeClaim" and path == ("spec",):
            lines += ["{{- with .Values.backup.className }}", f"{pad}storageClassName: {{{{ . }}}}", "{{- end }}"]
        return lines

    def special_sequence(self, values, path, indent):
        if self.key[0] == "CronJob" and path[-1] == "command":
            words = next(iter(values.values()))
            return [" " * indent + ("- --keep={{ .Values.backup.keep }}" if KEEP.fullmatch(word) else f"- {word}")
                    for word in words]
        if self.key[0] == "Certificate" and path[-1] == "ipAddresses":
            return [" " * indent + "- {{ .Values.webhook.clusterIP }}"]
        if self.key[0] != "NetworkPolicy":
            return None
        pad, one = " " * indent, next(iter(values.values()))
        if one == [{"port": port, "protocol": "TCP"} for port in API_PORTS]:
            return ["{{- range .Values.apiServer.ports }}", f"{pad}- protocol: TCP", f"{pad}  port: {{{{ . }}}}",
                    "{{- end }}"]
        if path[-1] == "from" and "ipBlock" in one[0]:
            return ["{{- range .Values.webhook.sources }}", f"{pad}- ipBlock:", f"{pad}    cidr: {{{{ . }}}}",
                    "{{- else }}", f"{pad}- ipBlock:", f"{pad}    cidr: {one[0]['ipBlock']['cidr']}",
                    f"{pad}    except:", f"{pad}      {{{{- toYaml .Values.webhook.podRanges | nindent {indent + 6} }}}}",
                    "{{- end }}"]
        return None

    def data(self, values, indent):
        """The texts of a ConfigMap: settings, or files of which the values choose one."""
        pad, lines = " " * indent, []
        for name in sorted({name for data in values.values() for name in data}):
            lines.append(f"{pad}{name}: |")
            include = f"milligpu.{self.key[2].removeprefix('milligpu-')}"
            lines.append(f'{pad}  {{{{- include "{include}" . | nindent {indent + 2} }}}}')
        return lines


POD_PATHS = tuple(("spec", "template", "spec", name) for name in
                  ("nodeSelector", "tolerations", "affinity", "runtimeClassName"))
POD_SETTINGS = ("nodeSelector", "tolerations", "affinity")
ACCOUNTS = (("ValidatingAdmissionPolicy", "", "milligpu-guard-placement"),
            ("spec", "variables", "name=accounts", "expression"))
API_PORTS = (443, 6443)
KEEP = re.compile(r"--keep=(\d+)")


def image_name(values):
    names = {split_image(value)[0].rsplit("/", 1)[-1] for value in values.values()}
    return must(names.pop() if len(names) == 1 else None, f"one container has the images {names}")


def split_image(image):
    repository, _, digest = image.partition("@")
    tagged = re.fullmatch(r"(.*):([\w.-]+)", repository)
    return (tagged.group(1), tagged.group(2), digest) if tagged else (repository, "", digest)


def in_one_order(lists):
    """All names of several lists, each after the one before it in some list."""
    order = []
    for names in sorted(map(list, lists), key=len, reverse=True):
        for at, name in enumerate(names):
            if name not in order:
                order.insert(order.index(names[at - 1]) + 1 if at else 0, name)
    return order


def escaped(text):
    """Text in which Helm finds no action but ours."""
    text = re.sub("\\{\\{|\\{(?=" + RELEASE + ")", lambda found: '{{ "' + found.group() + '" }}', text)
    return text.replace(RELEASE, "{{ .Release.Namespace }}")


def scalar(head, value, indent, comment):
    """An entry or item with a value that has no members."""
    if value == RELEASE:
        return [f"{head} {{{{ .Release.Namespace }}}}{comment}"]
    if head.endswith("defaultMode:"):
        return [f"{head} {value:04o}{comment}"]
    if not isinstance(value, str):
        return [f"{head} {json.dumps(value)}{comment}"]
    pad = " " * (indent + 2)
    if "\n" in value:
        return [f"{head} |{'' if value.endswith(chr(10)) else '-'}",
                *(escaped(pad + line).rstrip() for line in value.rstrip("\n").split("\n"))]
    if len(head) + len(value) + 1 > WIDTH and foldable(value):
        return [f"{head} >-", *(pad + escaped(line) for line in folded(value, WIDTH - len(pad)))]
    return [f"{head} {escaped(quoted(value))}{comment}"]


def quoted(value):
    """Plain if it means the same text plainly; a stand-in for the namespace is like a letter."""
    text = value.replace(RELEASE, "x")
    try:
        plain = yaml.safe_load(f"a: {text}") == {"a": text} and not re.match(r"[\[\]{}>|*&!%#`@'\"-]", text)
    except yaml.YAMLError:
        plain = False
    return value if plain and text == text.strip() and text else json.dumps(value, ensure_ascii=False)


def foldable(value):
    return value == value.strip() and not re.match(r"[#]", value)


def folded(value, width):
    lines, line = [], ""
    for word in re.split(r"(?<! ) (?! )", value):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


# ---- the files of the chart -----------------------------------------------------------------------------------------

HEAD = "{{- /* Written by scripts/chart.py from manifests/%s: change it there. */}}"


def template_files(variants, sources):
    """The templates, by their path."""
    every = set(variants.objects)
    texts = {}
    for key in sorted({key for objects in variants.objects.values() for key in objects}):
        values = {c: objects[key] for c, objects in variants.objects.items() if key in objects}
        source = source_of(key, sources)
        condition = variants.condition(set(values), every)
        body = Writer(variants, sources, key).mapping(values, (), 0)
        texts.setdefault(source, []).append((condition, body))
    files = {}
    for source, documents in texts.items():
        lines = [HEAD % source]
        for condition, body in documents:
            lines += [f"{{{{- if {condition} }}}}"] if condition else []
            lines += ["---", *body]
            lines += ["{{- end }}"] if condition else []
        files[f"templates/{'/'.join(source.split('/')[-2:])}"] = "\n".join(lines) + "\n"
    return files


def source_of(key, sources):
    """The file in manifests/ that has this object, or the kustomization that generates it."""
    if key in sources.files:
        return sources.files[key]
    for path in sorted(glob.glob(os.path.join(MANIFESTS, "*", "**", "kustomization.yaml"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            made = yaml.safe_load(file).get("configMapGenerator", [])
        if any(m["name"] == key[2] and m.get("behavior", "create") == "create" for m in made):
            return os.path.join(os.path.dirname(os.path.relpath(path, MANIFESTS)), f"{key[2]}.yaml")
    return sys.exit(f"chart.py: no file in manifests/ has {key}")


def settings_template(variants):
    """The settings of each wiring, as milligpu.config begins with them."""
    values = {c: yaml.safe_load(objects["ConfigMap", RELEASE, "milligpu-config"]["data"]["config.yaml"])
              for c, objects in variants.objects.items()}
    writer = Writer(variants, Sources(), ("settings", "", ""))
    return ['{{- define "milligpu.settings" }}', *writer.mapping(values, (), 0), "{{- end }}"]


def head_comment(component):
    """The comment at the top of a component's kustomization, as one line."""
    with open(os.path.join(MANIFESTS, "components", component, "kustomization.yaml"), encoding="utf-8") as file:
        lines = re.match(r"(?:#.*\n)*", file.read()).group().split("\n")
    return " ".join(line.removeprefix("#").strip() for line in lines).strip()


def purpose(component):
    """Its first sentence, and the version of Kubernetes that it needs."""
    text = head_comment(component)
    first = re.split(r"[.;] ", text)[0].rstrip(".")
    version = re.search(r"Kubernetes 1\.\d+ and later", text)
    return f"{first}. {version.group()}" if version and version.group() not in first else first


def checks_template(variants):
    """What a schema says badly: components that need others, and the version of the cluster."""
    lines = [HEAD % "components"]
    for component in variants.components:
        value = component_value(component, nested=True)
        for need in variants.needs[component]:
            lines += [f"{{{{- if and {value} (not {component_value(need, nested=True)}) }}}}",
                      f'{{{{- fail "components.{component} needs components.{need}: true" }}}}', "{{- end }}"]
        version = re.search(r"Kubernetes (1\.\d+) and later", head_comment(component))
        if version:
            lines += [f'{{{{- if and {value} (semverCompare "<{version.group(1)}-0" .Capabilities.KubeVersion.Version) }}}}',
                      f'{{{{- fail (printf "components.{component} needs Kubernetes {version.group(1)}; this cluster has %s" '
                      ".Capabilities.KubeVersion.Version) }}", "{{- end }}"]
    older = component_value(OLDER, nested=True)
    for component in sorted(variants.removed):
        lines += [f"{{{{- if and {older} {component_value(component, nested=True)} }}}}",
                  f'{{{{- fail "components.{OLDER} removes what components.{component} adds: set one of them to false" }}}}',
                  "{{- end }}"]
    lines += [f'{{{{- if and (not {older}) (semverCompare "<1.36-0" .Capabilities.KubeVersion.Version) }}}}',
              f'{{{{- fail (printf "this cluster has Kubernetes %s: set components.{OLDER}: true" '
              ".Capabilities.KubeVersion.Version) }}", "{{- end }}"]
    return "\n".join(lines + settings_template(variants)) + "\n"


def images_of(variants):
    """Every image: its name in the values, with repository, tag and digest."""
    images = {}

    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("image"), str):
                images[image_name({0: node["image"]})] = split_image(node["image"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    for objects in variants.objects.values():
        walk(list(objects.values()))
    return images


def pod_of(o):
    """The spec of the pods that an object makes, or None."""
    spec = o.get("spec", {})
    return spec.get("jobTemplate", {}).get("spec", spec).get("template", {}).get("spec")


def containers_of(variants):
    pods = [pod_of(o) for objects in variants.objects.values() for o in objects.values() if pod_of(o)]
    return sorted({c["name"] for pod in pods for c in pod["containers"] + pod.get("initContainers", [])})


def defaults(variants):
    """The values of which the manifests say the default."""
    found = {}
    for objects in variants.objects.values():
        for key, o in objects.items():
            if key[0] == "Service" and "clusterIP" in o["spec"]:
                found["clusterIP"] = o["spec"]["clusterIP"]
            if key[0] == "NetworkPolicy":
                for rule in o["spec"].get("ingress", []):
                    for peer in rule["from"]:
                        found["podRanges"] = peer.get("ipBlock", {}).get("except") or found.get("podRanges")
            if key[0] == "StatefulSet":
                found["size"] = o["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
            if key[0] == "PersistentVolumeClaim":
                found["backupSize"] = o["spec"]["resources"]["requests"]["storage"]
            if key[0] == "CronJob":
                found["schedule"], found["timeZone"] = o["spec"]["schedule"], o["spec"]["timeZone"]
                found["keep"] = KEEP.search(" ".join(pod_of(o)["containers"][0]["command"])).group(1)
            if key[0] == "DaemonSet":
                found["runtimeClassName"] = o["spec"]["template"]["spec"]["runtimeClassName"]
            if key == ACCOUNTS[0]:
                variable = [v for v in o["spec"]["variables"] if v["name"] == "accounts"][0]
                found["accounts"] = re.findall(r"'([^']+)'", variable["expression"])
    return found


def scheduler_files():
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(MANIFESTS, "overlays", "second-scheduler",
                                                                            "scheduler*.yaml")))


def values_text(variants):
    """values.yaml. A line `# ...` above a value is its description in README.md, too."""
    found = defaults(variants)
    lines = ["# Values of the chart, with their defaults. Written by scripts/chart.py.", "",
             "# which kube-scheduler calls milligpud: second-scheduler, default-scheduler or kubeadm",
             "wiring: second-scheduler", "",
             "# what manifests/components has; its README.md says more", "components:"]
    for component in variants.components:
        lines += [f"  # {purpose(component)}", f"  {component}: false"]
    lines += ["", "# settings of milligpud by their names (docs/CONFIG.md); they replace those of the wiring",
              "config: {}", "", "scheduler:",
              "  # configuration of the second scheduler: " + ", ".join(scheduler_files()),
              "  config: scheduler.yaml", "", "images:"]
    for name, (repository, tag, digest) in sorted(images_of(variants).items()):
        remark = "; the version of your cluster" if name == "kube-scheduler" else ""
        lines += [f"  # image of {name}: repository, and tag or digest (sha256:...){remark}",
                  f"  {name}: {{repository: {repository}, tag: {json.dumps(tag)}, digest: {json.dumps(digest)}}}"]
    lines += ["", "# names of Secrets, as in a pod", "imagePullSecrets: []", "", "storage:",
              "  # StorageClass of the ledger's volume; empty: the cluster's default. Fixed once installed",
              '  className: ""', "  # size of the ledger's volume. Fixed once installed", f"  size: {found['size']}", "",
              "# with components.backup", "backup:", "  # when, as in cron",
              f"  schedule: {json.dumps(found['schedule'])}", "  # time zone of the schedule",
              f"  timeZone: {found['timeZone']}", "  # how many backups are kept, 1 to 10000",
              f"  keep: {found['keep']}",
              "  # StorageClass of the backups' volume; empty: the cluster's default. Fixed once installed",
              '  className: ""', "  # size of the backups' volume", f"  size: {found['backupSize']}", "",
              "# requests and limits of a container; empty: those of manifests/", "resources:"]
    lines += [f"  {name}: {{}}" for name in containers_of(variants)]
    lines += ["", "# of the daemon's pod and of the agents' pods; empty: what manifests/ says", "pods:",
              "  milligpu: {nodeSelector: {}, tolerations: [], affinity: {}}",
              "  milligpu-node: {nodeSelector: {}, tolerations: [], affinity: {}, "
              f"runtimeClassName: {found['runtimeClassName']}}}", "", "# for the wirings default-scheduler and kubeadm",
              "webhook:", "  # a free address of the Service range, which scheduler.yaml on the control plane names",
              f"  clusterIP: {found['clusterIP']}",
              "  # addresses that may not call: the pod range", f"  podRanges: {json.dumps(found['podRanges'])}",
              "  # addresses that may call, as CIDRs; empty: all but podRanges", "  sources: []", "", "monitoring:",
              "  # namespace of Prometheus, which the NetworkPolicies let in", "  namespace: monitoring", "", "apiServer:",
              "  # ports of the API server, which the NetworkPolicies let out", f"  ports: {json.dumps(list(API_PORTS))}",
              "", "policy:", "  # with components.policy: a policy document (policy/README.md); empty: an example",
              '  document: ""', "", "guard:", "  # with components.guard: accounts that may create pods with spec.nodeName",
              f"  accounts: {json.dumps(found['accounts'])}"]
    return "\n".join(lines) + "\n"


def settings_schema():
    """Properties of `config`, from the table of settings."""
    with open(os.path.join(TOP, "include", "milligpu", "settings", "settings.def"), encoding="utf-8") as file:
        rows = re.findall(r'^SETTING\((\w+), (\w+), "[^"]*", (\d+), (\d+), \w+, "([^"]*)", "([^"]*)"\)', file.read(), re.M)
    properties = {}
    for name, kind, low, high, unit, words in rows:
        types = {
            "NUMBER": {"type": "integer", "minimum": int(low), "maximum": int(high)},
            "BOOL": {"type": "boolean"},
            "CHOICE": {"enum": unit.split()},
        }
        properties[name] = {**types.get(kind, {"type": "string"}), "description": words}
    return properties


def record(properties):
    return {"type": "object", "additionalProperties": False, "properties": properties}


def schema_text(variants):
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    port = {"type": "integer", "minimum": 1, "maximum": 65535}
    address = {"type": "string", "pattern": r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:]*)$"}
    cidrs = {"type": "array", "items": {"type": "string", "pattern": r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"}}
    digest = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
    image = record({"repository": {"type": "string", "minLength": 1}, "tag": text, "digest": digest})
    pod = {"nodeSelector": {"type": "object"}, "tolerations": {"type": "array"}, "affinity": {"type": "object"}}
    resources = record({"requests": {"type": "object"}, "limits": {"type": "object"}, "claims": {"type": "array"}})
    values = {
        "wiring": {"enum": variants.wirings},
        "components": record({component: {"type": "boolean"} for component in variants.components}),
        "config": record(settings_schema()),
        "scheduler": record({"config": {"enum": scheduler_files()}}),
        "images": record({name: image for name in sorted(images_of(variants))}),
        "imagePullSecrets": {"type": "array", "items": record({"name": text})},
        "storage": record({"className": text, "size": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?([KMGT]i?)?$"}}),
        "backup": record({"schedule": {"type": "string", "minLength": 1}, "timeZone": {"type": "string", "minLength": 1},
                          "keep": {"type": "integer", "minimum": 1, "maximum": 10000}, "className": text,
                          "size": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?([KMGT]i?)?$"}}),
        "resources": record({name: resources for name in containers_of(variants)}),
        "pods": record({"milligpu": record(pod), "milligpu-node": record({**pod, "runtimeClassName": text})}),
        "webhook": record({"clusterIP": address, "podRanges": cidrs, "sources": cidrs}),
        "monitoring": record({"namespace": text}),
        "apiServer": record({"ports": {"type": "array", "minItems": 1, "items": port}}),
        "policy": record({"document": text}),
        "guard": record({"accounts": texts}),
        "global": {"type": "object"},
    }
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **record(values)}
    return json.dumps(schema, indent=2) + "\n"


def chart_text():
    with open(os.path.join(TOP, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"^project\(milligpu VERSION ([0-9.]+)", file.read(), re.M).group(1)
    return ("# Written by scripts/chart.py.\napiVersion: v2\nname: milligpu\n"
            "description: Parts of a GPU for pods, handed out through kube-scheduler's own extender interface\n"
            f"type: application\nversion: {version}\nappVersion: {json.dumps(version)}\n")


def copied_files():
    copies = {f"files/{name}": ("overlays", "second-scheduler", name) for name in scheduler_files()}
    copies["files/policy.yaml"] = ("components", "policy", "policy.yaml")
    for path in sorted(glob.glob(os.path.join(MANIFESTS, "components", "dashboards", "*.json"))):
        copies[f"files/dashboards/{os.path.basename(path)}"] = ("components", "dashboards", os.path.basename(path))
    texts = {}
    for target, parts in copies.items():
        with open(os.path.join(MANIFESTS, *parts), encoding="utf-8") as file:
            texts[target] = file.read()
    return texts


def values_table(text):
    """The rows of README.md: value, default, and the comment above it."""
    rows, section, comment = [], "", ""
    for line in text.split("\n")[1:]:
        entry = re.fullmatch(r"( *)([\w.-]+):(?: (.*))?", line)
        if line.strip().startswith("# "):
            comment = line.strip()[2:]
        elif entry and entry.group(3) is None:
            section, inherited, comment = f"{entry.group(2)}.", comment, ""
        elif entry:
            name = (section if entry.group(1) else "") + entry.group(2)
            rows.append(f"| `{name}` | `{entry.group(3)}` | {comment or inherited} |")
            comment = ""
    return "\n".join(["| value | default | what it is |", "|---|---|---|", *rows])


def readme_text(values):
    with open(os.path.join(CHART, "README.md"), encoding="utf-8") as file:
        head, _, tail = file.read().partition("<!-- values -->\n")
    _, _, tail = tail.partition("<!-- end of values -->\n")
    return f"{head}<!-- values -->\n{values_table(values)}\n<!-- end of values -->\n{tail}"


def chart_files(kubectl):
    variants = Variants(Kustomize(kubectl))
    values = values_text(variants)
    return {
        **template_files(variants, Sources()),
        "templates/checks.yaml": checks_template(variants),
        "values.yaml": values,
        "values.schema.json": schema_text(variants),
        "Chart.yaml": chart_text(),
        **copied_files(),
        "README.md": readme_text(values),
    }


def files_there():
    for folder, _, names in os.walk(CHART):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), CHART)


def check(files):
    differ = sorted({*files} | {*files_there()} - HAND_WRITTEN)
    differ = [path for path in differ if text_at(path) != files.get(path)]
    for path in differ:
        print(f"chart.py: charts/milligpu/{path} is not what manifests/ says; run scripts/chart.py", file=sys.stderr)
    return 1 if differ else 0


def text_at(path):
    path = os.path.join(CHART, path)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(files):
    for path in {*files_there()} - {*files} - HAND_WRITTEN:
        os.remove(os.path.join(CHART, path))
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(CHART, path)), exist_ok=True)
        with open(os.path.join(CHART, path), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def main():
    parser = argparse.ArgumentParser(prog="chart.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--kubectl", default=shutil.which("kubectl"), help="the kubectl that builds (default: in PATH)")
    arguments = parser.parse_args()
    if not arguments.kubectl:
        sys.exit("chart.py: no kubectl; name one by --kubectl")
    files = chart_files(arguments.kubectl)
    sys.exit(check(files) if arguments.check else write(files))


if __name__ == "__main__":
    main()
