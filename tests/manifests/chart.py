"""chart.py TOP KUBECTL HELM - the chart's part of check.sh: each function named "check_..." is one check.

The chart is generated from manifests/ by scripts/chart.py. That the generated templates mean the same is tested here
by other code: Helm and kubectl render both, and the objects are compared one by one. Without Helm, only what the
generator writes is compared.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import yaml

from report import finish, need, problems, run

TOP, KUBECTL, HELM = sys.argv[1], sys.argv[2], sys.argv[3]
CHART = os.path.join(TOP, "charts", "milligpu")
# For Kubernetes before 1.36: the overlay is the wiring with the component, which is the last one that is applied.
OLDER_OVERLAY, OLDER = "second-scheduler-before-1.36", "before-1.36"
OVERLAYS = sorted({*os.listdir(os.path.join(TOP, "manifests", "overlays"))} - {OLDER_OVERLAY})


def contained(overlay):
    """The components that come with an overlay."""
    with open(os.path.join(TOP, "manifests", "overlays", overlay, "kustomization.yaml"), encoding="utf-8") as file:
        return {os.path.basename(component) for component in yaml.safe_load(file).get("components", [])}


CONTAINED = set().union(*map(contained, OVERLAYS))
COMPONENTS = sorted({*os.listdir(os.path.join(TOP, "manifests", "components"))} - {OLDER} - CONTAINED,
                    key=lambda name: (name != "node", name))

# Differences between a Helm release and `kubectl apply -k`; nothing else may differ.
DIFFERENCES = {
    "labels": ["app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"],  # of each object
    "checksum": "checksum/config",  # annotation of the pod template; kustomize puts a hash into the ConfigMap's name
    "namespace": ("Namespace", "", "milligpu-system"),  # Helm wants the release's namespace to be there
    "hooks": [("CSIStorageCapacity", "milligpu-system", "milligpu-bell"), ("ConfigMap", "milligpu-system", "milligpu-keys")],
    # ConfigMaps are compared by what their YAML means: the chart writes config.yaml without comments.
    # Lists of objects are compared as sets: the order of containers, ports, variables and volumes has no meaning here.
}

def kustomize(wiring, components, scheduler=None):
    """The objects by identity; None if kubectl refuses the combination."""
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        at = os.path.relpath(os.path.realpath(os.path.join(TOP, "manifests")), folder)
        here = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{at}/overlays/{wiring}"],
            "components": [f"{at}/components/{component}" for component in components],
        }
        if scheduler:
            with open(os.path.join(TOP, "manifests", "overlays", wiring, scheduler), encoding="utf-8") as file:
                text = file.read()
            here["configMapGenerator"] = [{"name": "milligpu-scheduler", "namespace": "milligpu-system",
                                           "behavior": "replace", "literals": [f"scheduler.yaml={text}"]}]
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
            yaml.safe_dump(here, file)
        done = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    text = done.stdout
    for o in yaml.safe_load_all(text):
        if o["kind"] == "ConfigMap":
            name = o["metadata"]["name"]
            text = text.replace(name, re.sub(r"-[a-z0-9]{10}$", "", name))
    objects = by_identity(yaml.safe_load_all(text))
    del objects[DIFFERENCES["namespace"]]
    return objects


def helm(*arguments, namespace="milligpu-system", values=None):
    """What `helm template` writes, or None and why not."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values or {}, file)
        file.flush()
        done = subprocess.run([HELM, "template", "milligpu", CHART, "--namespace", namespace, "-f", file.name,
                               "--kube-version", "1.37.2", *arguments], capture_output=True, text=True)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr)


def choice(wiring, components):
    return {"wiring": wiring, "components": {component: True for component in components}}


def by_identity(objects):
    listed = [(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"], o) for o in objects if o]
    need(len({entry[:3] for entry in listed}) == len(listed), "an object is there twice")
    return {entry[:3]: normal(entry[3]) for entry in listed}


def normal(o):
    """The object without the differences that are allowed."""
    metadata = o["metadata"]
    for label in DIFFERENCES["labels"]:
        metadata.get("labels", {}).pop(label, None)
    template = o.get("spec", {}).get("template", {}).get("metadata", {})
    if template.get("annotations", {}).pop(DIFFERENCES["checksum"], None) and not template["annotations"]:
        del template["annotations"]
    if o["kind"] == "ConfigMap":
        o["data"] = {name: yaml.safe_load(text) for name, text in o.get("data", {}).items()}
    return without_order(o)


def without_order(node):
    if isinstance(node, dict):
        return {key: without_order(value) for key, value in node.items()}
    if isinstance(node, list):
        items = [without_order(item) for item in node]
        of_objects = items and all(isinstance(item, dict) and "expression" not in item for item in items)
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if of_objects else items
    return node


def difference(path, one, two):
    """Where two nodes differ first, in words."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted({*one, *two}):
            if key not in one or key not in two:
                return f"{path}.{key} is only in {'manifests' if key in one else 'the chart'}"
            if one[key] != two[key]:
                return difference(f"{path}.{key}", one[key], two[key])
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for at, (left, right) in enumerate(zip(one, two)):
            if left != right:
                return difference(f"{path}[{at}]", left, right)
    return f"{path}: manifests {one!r}, chart {two!r}"


def compare(wiring, components, scheduler=None, values=None):
    what = f"{wiring} with {', '.join(components) or 'no component'}{' and ' + scheduler if scheduler else ''}"
    wanted = kustomize(wiring, components, scheduler)
    values = values or choice(wiring, components)
    if scheduler:
        values["scheduler"] = {"config": scheduler}
    text, why = helm(values=values)
    if wanted is None or text is None:
        need(wanted is None and text is None, f"{what}: kubectl and Helm disagree whether this can be: {why}")
        return
    objects = [o for o in yaml.safe_load_all(text) if o]
    hooks = [o for o in objects if "helm.sh/hook" in o["metadata"].get("annotations", {})]
    need(sorted(by_identity(hooks)) == sorted(DIFFERENCES["hooks"]), f"{what}: the hooks are {sorted(by_identity(hooks))}")
    seen = by_identity(o for o in objects if o not in hooks)
    need(len(wanted) > 10, f"{what}: kubectl builds next to nothing")
    for key in sorted({*wanted, *seen}):
        if key not in seen or key not in wanted:
            problems.append(f"{what}: {key} is only in {'manifests' if key in wanted else 'the chart'}")
        elif wanted[key] != seen[key]:
            problems.append(f"{what}: {key}: {difference('', wanted[key], seen[key])}")


def check_generated():
    """charts/milligpu is what scripts/chart.py writes."""
    done = subprocess.run([os.path.join(TOP, "scripts", "chart.py"), "--check", "--kubectl", KUBECTL], capture_output=True,
                          text=True)
    need(done.returncode == 0, done.stderr.strip())


def leaves(values, path=()):
    """The names of the values that have a default: those of the first level, and of the second below a mapping."""
    for name, value in values.items():
        if isinstance(value, dict) and value and not path:
            yield from leaves(value, (name,))
        else:
            yield ".".join((*path, name))


def check_table():
    """README.md has a row for each value, and no other."""
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
        values = sorted(leaves(yaml.safe_load(file)))
    with open(os.path.join(CHART, "README.md"), encoding="utf-8") as file:
        table = file.read().partition("<!-- values -->")[2].partition("<!-- end of values -->")[0]
    rows = sorted(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))
    need(rows == values, f"the chart's README.md and values.yaml: only one of them has {sorted({*rows} ^ {*values})}")


def combinations():
    """Each component alone (kubectl refuses some), with what it needs, all, and all but one, in each wiring."""
    yield from ((wiring, tuple(chosen)) for wiring in OVERLAYS for chosen in ([], COMPONENTS))
    for at, component in enumerate(COMPONENTS):
        wiring = OVERLAYS[at % len(OVERLAYS)]
        yield wiring, (component,)
        yield OVERLAYS[(at + 1) % len(OVERLAYS)], tuple(c for c in COMPONENTS if c != component)
        if component != "node":
            yield wiring, ("node", component)
    for wiring in OVERLAYS:
        yield wiring, (OLDER,)
        yield wiring, ("node", "guard", "advertise", OLDER)


def compare_older(component):
    """With OLDER, the chart refuses a component that kubectl builds to nothing more than without it."""
    base = kustomize("second-scheduler", ("node", OLDER))
    chosen = (*dict.fromkeys(("node", component)), OLDER)
    if component == "node" or kustomize("second-scheduler", chosen) != base:
        compare("second-scheduler", chosen)
        return
    text, why = helm(values=choice("second-scheduler", chosen))
    sentence = f"components.{OLDER} removes what components.{component} adds: set one of them to false"
    need(text is None and sentence in why, f"{component} with {OLDER}: Helm does not say {sentence!r}: {why}")


def check_older():
    """With before-1.36, each component is what kubectl builds, or is refused if that is nothing."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compare_older, COMPONENTS))


def check_equal():
    """The chart renders what kubectl builds, object by object, in each wiring with sets of components."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: compare(*one), combinations()))
    for name in sorted(os.listdir(os.path.join(TOP, "manifests", "overlays", "second-scheduler"))):
        if name.startswith("scheduler"):
            compare("second-scheduler", (), name)
    compare(OLDER_OVERLAY, (), values={**choice("second-scheduler", [OLDER]), "images": {"kube-scheduler": {"tag": "v1.34.4"}}})


def check_lint():
    """helm lint --strict has nothing to say."""
    for wiring in OVERLAYS:
        enabled = ",".join(f"components.{component}=true" for component in COMPONENTS)
        done = subprocess.run([HELM, "lint", "--strict", CHART, "--kube-version", "1.37.2", "--set",
                               f"wiring={wiring},{enabled}"], capture_output=True, text=True)
        need(done.returncode == 0 and "WARNING" not in done.stdout, f"helm lint: {done.stdout}{done.stderr}")


REFUSED = [  # values, flags, words of the message
    ({"wiring": "second"}, (), ["wiring", "second-scheduler", "default-scheduler", "kubeadm"]),
    ({"components": {"zerotouch": True}}, (), ["components", "zerotouch"]),
    ({"components": {"node": "yes"}}, (), ["components/node", "boolean"]),
    ({"config": {"polcy": "mixed"}}, (), ["config", "polcy"]),
    ({"config": {"min_milli": 5000}}, (), ["config/min_milli", "1,000"]),
    ({"config": {"wake": "pods"}}, (), ["config/wake", "object", "node", "off"]),
    ({"images": {"milligpud": {"digest": "latest"}}}, (), ["images/milligpud/digest"]),
    ({"webhook": {"clusterIP": "milligpu.svc"}}, (), ["webhook/clusterIP"]),
    ({"components": {"usage": True}}, (), ["components.usage needs components.node"]),
    ({"components": {"zero-touch": True}}, ("--kube-version", "1.35.9"),
     ["components.zero-touch needs Kubernetes 1.36; this cluster has v1.35.9"]),
    ({"wiring": "kubeadm"}, ("--kube-version", "1.35.9"), ["this cluster has Kubernetes v1.35.9: set components.before-1.36: true"]),
]


def check_refusals():
    """Wrong values are refused, and the message names the value and what would do."""
    for values, flags, words in REFUSED:
        text, why = helm(*flags, values=values)
        need(text is None, f"{values} is not refused")
        for word in words:
            need(word in why.replace(".", "/") or word in why, f"{values}: the message does not have {word!r}: {why}")
    text, why = helm("--kube-version", "1.36.0", values=choice("second-scheduler", COMPONENTS))
    need(text is not None, f"1.36.0 is refused: {why}")
    text, why = helm("--kube-version", "1.34.4", values=choice("second-scheduler", ["node", "guard", OLDER]))
    need(text is not None, f"1.34.4 is refused: {why}")


OWN = {
    "images": {"milligpud": {"repository": "registry.example.com/milligpud", "tag": "7", "digest": "sha256:" + "0" * 64},
               "kube-scheduler": {"tag": "v1.34.9"}},
    "imagePullSecrets": [{"name": "pull"}],
    "storage": {"className": "local", "size": "3Gi"},
    "resources": {"milligpud": {"requests": {"cpu": "7m"}}},
    "pods": {"milligpu": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "c"}], "affinity": {"nodeAffinity": {}}},
             "milligpu-node": {"tolerations": [{"key": "d"}], "runtimeClassName": ""}},
    "monitoring": {"namespace": "watching"},
    "apiServer": {"ports": [16443]},
    "config": {"policy": "", "ledger_max_bytes": 1073741824, "events": False, "wake": "off"},
    "policy": {"document": "policy: rollout\n"},
    "guard": {"accounts": ["jane", "system:serviceaccount:ci:placer"]},
}


def check_values():
    """Each value that an operator gives is in the objects."""
    components = {"components": {component: True for component in COMPONENTS}}
    text, why = helm(namespace="elsewhere", values={**OWN, **components})
    need(text is not None, f"values are refused: {why}")
    objects = by_identity(o for o in yaml.safe_load_all(text or "") if o and "annotations" not in o["metadata"])
    code = "\n".join(line for line in (text or "").split("\n") if not line.lstrip().startswith("#"))
    need("milligpu-system" not in code.replace("description:", ""), "the namespace is written somewhere, and not the release's")
    daemon = objects["StatefulSet", "elsewhere", "milligpu"]["spec"]
    pod = daemon["template"]["spec"]
    containers = {c["name"]: c for c in pod["containers"]}
    need(containers["milligpud"]["image"] == "registry.example.com/milligpud:7@sha256:" + "0" * 64, "image of milligpud")
    need(containers["kube-scheduler"]["image"] == "registry.k8s.io/kube-scheduler:v1.34.9", "image of kube-scheduler")
    need(containers["milligpud"]["resources"] == {"requests": {"cpu": "7m"}}, "resources of milligpud")
    need(containers["kube-scheduler"]["resources"]["requests"]["cpu"] == "100m", "resources of kube-scheduler")
    need({key: pod[key] for key in ("nodeSelector", "tolerations", "affinity")} == OWN["pods"]["milligpu"], "pod of milligpu")
    need(pod["imagePullSecrets"] == [{"name": "pull"}], "imagePullSecrets")
    claim = daemon["volumeClaimTemplates"][0]["spec"]
    need(claim["storageClassName"] == "local" and claim["resources"]["requests"]["storage"] == "3Gi", "the ledger's claim")
    agent = objects["DaemonSet", "milligpu-node", "milligpu-node"]["spec"]["template"]["spec"]
    need("runtimeClassName" not in agent and agent["tolerations"] == [{"key": "d"}], "pod of milligpu-node")
    policy = objects["NetworkPolicy", "elsewhere", "milligpu"]["spec"]
    need(policy["egress"] == [{"ports": [{"port": 16443, "protocol": "TCP"}]}], f"ports of the API server: {policy['egress']}")
    need("watching" in json.dumps(policy["ingress"]), "the namespace of Prometheus")
    settings = objects["ConfigMap", "elsewhere", "milligpu-config"]["data"]["config.yaml"]
    need({key: settings[key] for key in OWN["config"]} == OWN["config"], f"settings: {settings}")
    need(settings["ledger"] == "/var/lib/milligpu/ledger.db", "the wiring's settings are lost")
    need("ledger_max_bytes: 1073741824\n" in (text or ""), "a number of bytes is written as another")
    document = objects["ConfigMap", "elsewhere", "milligpu-policy"]["data"]["policy.yaml"]
    need(document == {"policy": "rollout"}, f"policy: {document}")
    accounts = objects["ValidatingAdmissionPolicy", "", "milligpu-guard-placement"]["spec"]["variables"][0]
    need(accounts["expression"] == "['jane','system:serviceaccount:ci:placer']", f"accounts: {accounts}")
    check_webhook_values()


def check_webhook_values():
    for webhook, peers in (({"podRanges": ["10.1.0.0/16", "fd00::/64"]},
                            [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.1.0.0/16", "fd00::/64"]}}]),
                           ({"sources": ["10.0.0.1/32", "10.0.0.2/32"]},
                            [{"ipBlock": {"cidr": "10.0.0.1/32"}}, {"ipBlock": {"cidr": "10.0.0.2/32"}}])):
        text, why = helm(values={"wiring": "kubeadm", "webhook": {"clusterIP": "10.96.0.9", **webhook}})
        need(text is not None, f"{webhook} is refused: {why}")
        objects = by_identity(o for o in yaml.safe_load_all(text or "") if o and "annotations" not in o["metadata"])
        need(objects["Service", "milligpu-system", "milligpu"]["spec"]["clusterIP"] == "10.96.0.9", "clusterIP")
        rules = objects["NetworkPolicy", "milligpu-system", "milligpu"]["spec"]["ingress"]
        need(peers in [rule["from"] for rule in rules], f"{webhook}: the NetworkPolicy has {rules}")


def check_restart():
    """A changed setting changes the pod template; a changed policy document does not."""
    def checksum(values):
        text, why = helm(values=values)
        return re.search(r"checksum/config: (\w{64})", text or why).group(1)
    components = {"components": {"policy": True}}
    before = checksum(components)
    need(before == checksum({**components, "policy": {"document": "policy: rollout"}}), "a policy document restarts milligpud")
    need(before != checksum({**components, "config": {"shortlist": 3}}), "a changed setting restarts nothing")
    need(before != checksum({**components, "scheduler": {"config": "scheduler-whole-gpus.yaml"}}),
         "a changed scheduler configuration restarts nothing")


def main():
    run(check_generated, "chart: ")
    run(check_table, "chart: ")
    if HELM:
        for check in (check_equal, check_older, check_lint, check_refusals, check_values, check_restart):
            run(check, "chart: ")
    else:
        print("skip - chart: no Helm here (tests/controlplane/build.sh builds one): its templates are not rendered")
    finish("manifests")


main()
