"""What reads the pieces of files that pages show: a pod is played, a policy checked, a kustomization compared with manifests/."""

import itertools
import json
import pathlib
import re
import subprocess
import tempfile

import yaml

import harness

MANIFESTS = harness.SOURCE / "manifests"
OF_KUSTOMIZE = {"apiVersion", "kind", "resources", "components", "images", "patches"}
OF_CONTAINERS = {"resources", "env", "securityContext"}


NUMBERS = itertools.count()


class Wrong(AssertionError):
    """A piece that its reader does not take."""


def need(condition, text):
    if not condition:
        raise Wrong(text)


def ctl(server, *words, stdin=None):
    return subprocess.run([harness.BIN / "milligpuctl", *map(str, words)], input=stdin, capture_output=True, text=True,
                          timeout=harness.PATIENCE, env={"MILLIGPU_SERVER": server, "NO_COLOR": "1"})


def play(server, *documents):
    """The outcomes of the pods, in order, in a namespace of their own."""
    done = ctl(server, "play", "-", "-o", "json", "-n", f"piece-{next(NUMBERS)}", stdin=yaml.safe_dump_all(documents))
    need(done.returncode == 0, f"milligpuctl play: {done.stderr}")
    return ["not created" if item["text"].startswith("not created: ") else item["outcome"]
            for item in json.loads(done.stdout)["items"]]


def pod(spec, container=None, name="piece"):
    limits = {"limits": {"nvidia.com/vgpu": 100}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "none", "resources": limits, **(container or {})}], **spec}}


def read_workload(server, document):
    outcomes = play(server, document)
    need(outcomes and set(outcomes) == {"placed"}, f"its pods are {outcomes}")


def read_quota(server, quota):
    """As many pods as it says are made, and not one more."""
    milli = int(quota["spec"]["hard"]["requests.nvidia.com/vgpu"])
    pods = []
    for at in range(milli // 1000 + 1):
        pods.append(pod({}, {"resources": {"limits": {"nvidia.com/vgpu": 1000}}}, f"p{at}"))
        pods[-1]["metadata"]["namespace"] = quota["metadata"]["namespace"]
    made = [outcome != "not created" for outcome in play(server, quota, *pods)]
    need(made == [True] * (milli // 1000) + [False], f"of the pods, these are created: {made}")


def read_policy(server, text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = ctl(server, "check-policy", file.name)
    need(done.returncode == 0 and "warning" not in done.stderr, f"check-policy: {done.stdout}{done.stderr}")


def read_container(server, piece):
    """A part of a container, or of milligpu-node's own."""
    outcomes = play(server, pod({}, piece))
    need(outcomes == ["placed"], f"a container with it is {outcomes}")
    for variable in piece.get("env", []):
        path = variable["valueFrom"]["fieldRef"]["fieldPath"]
        key = re.fullmatch(r"metadata\.annotations\['([\w./-]+)'\]", path)
        need(key and is_annotation(key[1]), f"milligpud writes no {path}")
    known = pathlib.Path("/usr/include/linux/capability.h").read_text()
    for name in piece.get("securityContext", {}).get("capabilities", {}).get("add", []):
        need(f"#define CAP_{name} " in known, f"there is no capability {name}")


def is_annotation(key):
    """Whether milligpud writes it on a pod."""
    words = "".join((harness.SOURCE / file).read_text() for file in ("include/milligpu/base/annotations.h",
                                                                     "src/wire/kube/wire_kube_encode.c"))
    name, _, end = key.rpartition("/")
    return f'"{key}"' in words or (end == "pod" and f'"{name}"' in words and '"/pod"' in words)


def read_modifier(rules):
    """Of Velero."""
    for rule in rules["resourceModifierRules"]:
        for patch in rule["mergePatches"]:
            for key, value in json.loads(patch["patchData"])["metadata"]["annotations"].items():
                need(value is None and is_annotation(key), f"milligpud writes no {key}")


def manifest_objects():
    for path in MANIFESTS.rglob("*.yaml"):
        try:
            yield from (one for one in yaml.safe_load_all(path.read_text()) if isinstance(one, dict))
        except yaml.YAMLError:
            continue  # none that kubectl applies by itself


def read_kustomization(kustomization):
    need(set(kustomization) <= OF_KUSTOMIZE, f"kustomize has no {sorted(set(kustomization) - OF_KUSTOMIZE)}")
    for path in (*kustomization.get("resources", []), *kustomization.get("components", [])):
        here = harness.SOURCE / path.removeprefix("milligpu/") / "kustomization.yaml"
        need(path.startswith("milligpu/") and here.exists(), f"{path} is no kustomization")
        kind = yaml.safe_load(here.read_text())["kind"]
        need(kind == ("Component" if path in kustomization.get("components", []) else "Kustomization"), f"{path} is a {kind}")
    images = "".join(path.read_text() for path in MANIFESTS.rglob("*.yaml"))
    for image in kustomization.get("images", []):
        need(re.search(rf"image: \"?{re.escape(image['name'])}(:|@|\"|$)", images, re.M), f"no manifest has the image {image['name']}")
    for patch in kustomization.get("patches", []):
        read_patch(patch)


def read_patch(patch):
    """Its target is there, and its paths lead into it."""
    target = patch["target"]
    found = [one for one in manifest_objects() if one.get("kind") == target["kind"] and one["metadata"]["name"] == target["name"]]
    need(found, f"no manifest has {target}")
    for operation in yaml.safe_load(patch["patch"]):
        steps = operation["path"].strip("/").split("/")
        need(any(leads(one, steps[:-1] if operation["op"] == "add" else steps) for one in found),
             f"{target['name']} has no {operation['path']}")


def leads(value, steps):
    for step in steps:
        if isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return False
    return True


def is_object(block):
    try:
        return isinstance(yaml.safe_load(block.text), dict)
    except yaml.YAMLError:
        return False


def read(server, block):
    """Raises Wrong if nothing takes it."""
    document = yaml.safe_load(block.text)
    need(isinstance(document, dict), "nothing reads this: it is neither the output of the block before it nor an object")
    kind, keys = document.get("kind"), set(document)
    if kind == "Policy":
        read_policy(server, block.text)
    elif kind == "ResourceQuota":
        read_quota(server, document)
    elif kind == "Kustomization" or keys & {"components", "patches"}:
        read_kustomization(document)
    elif kind is not None:
        read_workload(server, document)
    elif keys <= OF_CONTAINERS:
        read_container(server, document)
    elif keys == {"spec"}:
        read_workload(server, pod(document["spec"]))
    elif "resourceModifierRules" in keys:
        read_modifier(document)
    else:
        raise Wrong(f"nothing reads a piece with {sorted(keys)}")


def says(file, text):
    """Whether a message of this source file can be this text; its numbers and names are whatever they are."""
    source = (harness.SOURCE / file).read_text()
    text = " ".join(text.split()).removeprefix("milligpu: ")
    for literals in re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*)+', source):
        message = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))
        pattern = re.sub(r"%[.\d]*\\?[a-z]+", ".+", re.escape(message).replace(r"\%", "%").replace(r"\.", "."))
        if len(message) > 40 and re.fullmatch(pattern, text):
            return True
    return False
