"""check.py TOP KUBECTL - what check.sh runs: each function named "check_..." that has a docstring is one check."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

from report import finish, need, problems, run

TOP, KUBECTL = sys.argv[1], sys.argv[2]
MANIFESTS = os.path.join(TOP, "manifests")
OVERLAYS = ["second-scheduler", "default-scheduler", "kubeadm", "second-scheduler-before-1.36"]
COMPONENTS = ["advertise", "backup", "cert-manager", "node", "usage", "mps", "policy", "zero-touch", "scheduler-name",
              "toleration", "other-scheduler", "guard", "restores", "required-plugin", "alerts", "node-metrics", "dashboards"]
BEFORE = "before-1.36"  # the component that removes what older versions do not know
NEEDS = {"usage": ["node"], "mps": ["node"]}  # components that another one builds on
USER = {"kind": "ServiceAccount", "name": "milligpu", "namespace": "milligpu-system"}
AGENT = {"kind": "ServiceAccount", "name": "milligpu-node", "namespace": "milligpu-node"}

# All rights of milligpud in the default install: group, resource, verb, names.
RIGHTS = {
    ("", "pods", "get", ()),
    ("", "pods", "list", ()),
    ("", "pods", "watch", ()),
    ("", "nodes", "list", ()),
    ("", "nodes", "watch", ()),
    ("", "namespaces", "get", ("kube-system",)),
    ("", "pods/binding", "create", ()),
    ("events.k8s.io", "events", "create", ()),
}
WAKE_RIGHTS = {
    ("storage.k8s.io", "csistoragecapacities", "create", ()),
    ("storage.k8s.io", "csistoragecapacities", "patch", ("milligpu-bell",)),
}
KEYS_RIGHTS = {
    ("", "configmaps", "create", ()),
    ("", "configmaps", "patch", ("milligpu-keys",)),
}
ADVERTISE_RIGHTS = {("", "nodes/status", "patch", ())}
AGENT_RIGHTS = {("", "nodes", "patch", ())}
MPS_RIGHTS = {("", "nodes", "get", ())}

# Folders of its node that the agent sees: path, where in its container, whether read-only.
AGENT_FOLDERS = {
    ("/var/run/nri", "/var/run/nri", False),
    ("/etc/cdi", "/etc/cdi", True),
    ("/var/run/cdi", "/var/run/cdi", True),
    ("/sys/fs/cgroup", "/sys/fs/cgroup", True),
    ("/var/lib/milligpu-node", "/var/lib/milligpu-node", False),
}

def path_of(*parts):
    return os.path.join(MANIFESTS, *parts)


def text_of(*parts):
    with open(path_of(*parts), encoding="utf-8") as file:
        return file.read()


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def named(objects, kind, name):
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    need(len(found) == 1, f"there are {len(found)} of {kind} {name} instead of one")
    return found[0] if found else {"metadata": {}, "spec": {}, "rules": [], "data": {}}


def build(folder):
    done = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True)
    need(done.returncode == 0, f"kubectl kustomize {folder}: {done.stderr.strip()}")
    return documents(done.stdout)


def build_with_components(overlay, components, patches=()):
    """A kustomization as the README shows it, outside the tree."""
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        here = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(os.path.realpath(path_of("overlays", overlay)), folder)],
            "components": [os.path.relpath(os.path.realpath(path_of("components", c)), folder) for c in components],
            "patches": list(patches),
        }
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
            yaml.safe_dump(here, file)
        return build(folder)


def components_of(overlay):
    """The components that an overlay has by itself."""
    own = documents(text_of("overlays", overlay, "kustomization.yaml"))[0]
    inherited = [c for r in own["resources"] if r.startswith("../") and "base" not in r
                 for c in components_of(os.path.basename(r))]
    return inherited + [os.path.basename(c) for c in own.get("components", [])]


def rights_of(role):
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def own_roles(objects):
    return {
        (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): rights_of(o)
        for o in objects
        if o["kind"] in ("Role", "ClusterRole")
    }


def compare_rights(what, wanted, seen):
    for right in sorted(seen - wanted):
        problems.append(f"{what} gives a right that is not on the list of check.py: {right}")
    for right in sorted(wanted - seen):
        problems.append(f"{what} lacks a right that the daemon needs: {right}")


def check_files_parse():
    """Every YAML file can be parsed."""
    for folder, _, files in os.walk(MANIFESTS):
        for name in files:
            if name.endswith(".yaml"):
                try:
                    documents(text_of(folder, name))
                except yaml.YAMLError as error:
                    problems.append(f"{os.path.join(folder, name)}: {error}")


def check_rights_are_least():
    """The default install has exactly the listed rights, bound to our ServiceAccount only."""
    objects = documents(text_of("base", "rbac.yaml"))
    compare_rights("base", RIGHTS, rights_of(named(objects, "ClusterRole", "milligpu")))
    wake = named(objects, "Role", "milligpu-bell")
    compare_rights("the wake-up object's Role", WAKE_RIGHTS, rights_of(wake))
    need(wake["metadata"].get("namespace") == "milligpu-system", "the wake-up object's Role is not in our own namespace")
    keys = named(objects, "Role", "milligpu-keys")
    compare_rights("the public keys' Role", KEYS_RIGHTS, rights_of(keys))
    need(keys["metadata"].get("namespace") == "milligpu-system", "the public keys' Role is not in our own namespace")
    objects += documents(text_of("components", "advertise", "rbac.yaml"))
    compare_rights("advertise", ADVERTISE_RIGHTS, rights_of(named(objects, "ClusterRole", "milligpu-advertise")))
    need(len(own_roles(objects)) == 4, "there is a Role or ClusterRole that check.py does not know")
    for o in objects:
        if o["kind"].endswith("Binding"):
            need(o["subjects"] == [USER], f"{o['kind']} {o['metadata']['name']} binds somebody else")


def check_rights_of_the_agent():
    """The agent may patch Nodes and nothing else, within a policy; milligpud writes its keys in the agent's namespace."""
    objects = documents(text_of("components", "node", "rbac.yaml"))
    compare_rights("node", AGENT_RIGHTS, rights_of(named(objects, "ClusterRole", "milligpu-node")))
    keys = named(objects, "Role", "milligpu-keys")
    compare_rights("the public keys' Role of node", KEYS_RIGHTS, rights_of(keys))
    need(keys["metadata"].get("namespace") == AGENT["namespace"], "node: the public keys' Role is not beside the agent")
    need(len(own_roles(objects)) == 2, "node: there is a Role or ClusterRole that check.py does not know")
    bound = {
        (o["kind"], o["metadata"].get("namespace"), o["roleRef"]["kind"], o["roleRef"]["name"]): o["subjects"]
        for o in objects
        if o["kind"].endswith("Binding")
    }
    wanted = {
        ("ClusterRoleBinding", None, "ClusterRole", "milligpu-node"): [AGENT],
        ("RoleBinding", AGENT["namespace"], "Role", "milligpu-keys"): [USER],
    }
    need(bound == wanted, f"node: binds {bound}")
    policies = documents(text_of("components", "node", "policy.yaml"))
    policy = named(policies, "ValidatingAdmissionPolicy", "milligpu-node")["spec"]
    who = f"request.userInfo.username == 'system:serviceaccount:{AGENT['namespace']}:{AGENT['name']}'"
    need([m["expression"] for m in policy["matchConditions"]] == [who], "node: the policy is about somebody else")
    need(policy["failurePolicy"] == "Fail", "node: the policy may fail open")
    need(
        policy["matchConstraints"]["resourceRules"]
        == [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
             "resources": ["nodes", "nodes/status"]}],
        "node: the policy is about other resources",
    )
    binding = named(policies, "ValidatingAdmissionPolicyBinding", "milligpu-node")["spec"]
    need(binding == {"policyName": "milligpu-node", "validationActions": ["Deny"]}, "node: the policy is not in force")


def check_required_plugin():
    """New pods that ask require what our Binding requires; guard and restores leave that, and nothing else."""
    with open(os.path.join(TOP, "include", "milligpu", "base", "annotations.h"), encoding="utf-8") as file:
        header = file.read()
    key = re.search(r'ANNOTATION_REQUIRED +"([^"]+)"', header).group(1)
    value = re.search(r'REQUIRED_PLUGINS +"(.+)"\n', header).group(1).replace("\\", "")
    policies = documents(text_of("components", "required-plugin", "policy.yaml"))
    policy = named(policies, "MutatingAdmissionPolicy", "milligpu-required-plugin")["spec"]
    need(policy["failurePolicy"] == "Fail", "required-plugin: the policy may fail open")
    need(policy["reinvocationPolicy"] == "IfNeeded", "required-plugin: a container that is added later may escape")
    need(
        policy["matchConstraints"]["resourceRules"]
        == [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "required-plugin: the policy is about other requests",
    )
    binding = named(policies, "MutatingAdmissionPolicyBinding", "milligpu-required-plugin")["spec"]
    need(binding == {"policyName": "milligpu-required-plugin"}, "required-plugin: the policy is not in force")
    written = policy["mutations"][0]["jsonPatch"]["expression"]
    need(f"value: '{value}'" in written, f"required-plugin writes another value than {value}")
    need(f"['{key}/pod']" in policy["variables"][1]["expression"], f"required-plugin writes another key than {key}/pod")
    guard = named(documents(text_of("components", "guard", "annotations.yaml")), "ValidatingAdmissionPolicy",
                  "milligpu-guard-annotations")["spec"]
    required = [v["expression"] for v in guard["variables"] if v["name"] == "required"][0]
    need(f"&& !(oldObject == null && variables.now[k] == '{value}')" in required, "guard lets another value pass")
    restores = documents(text_of("components", "restores", "policy.yaml"))[0]["spec"]
    copied = [v["expression"] for v in restores["variables"] if v["name"] == "copied"][0]
    need(f"&& object.metadata.annotations[k] != '{value}'" in copied, "restores removes what required-plugin writes")


def check_schedulers_of_pods():
    """The policies about the schedulers of pods agree with the overlay, act, and refuse nothing by themselves."""
    profile = documents(text_of("overlays", "second-scheduler", "scheduler.yaml"))[0]["profiles"][0]["schedulerName"]
    names = documents(text_of("components", "scheduler-name", "policy.yaml"))[0]["spec"]
    need(f"value: '{profile}'" in names["mutations"][0]["jsonPatch"]["expression"], "scheduler-name: another name")
    replaced = re.search(r"== '([\w-]+)'$", names["matchConditions"][1]["expression"]).group(1)
    policies = documents(text_of("components", "other-scheduler", "policy.yaml"))
    other = named(policies, "ValidatingAdmissionPolicy", "milligpu-other-scheduler")["spec"]
    need([(v["name"], v["expression"]) for v in other["variables"][:2]] ==
         [("served", f"['{profile}']"), ("replaced", f"['{replaced}']")], "other-scheduler: other names")
    need(other["failurePolicy"] == "Ignore", "other-scheduler: may refuse a pod if it cannot be evaluated")
    guard = documents(text_of("components", "guard", "amounts.yaml"))[0]["spec"]
    need(other["matchConstraints"] == guard["matchConstraints"], "other-scheduler and guard are about other objects")
    binding = named(policies, "ValidatingAdmissionPolicyBinding", "milligpu-other-scheduler")["spec"]
    need(binding == {"policyName": "milligpu-other-scheduler", "validationActions": ["Warn", "Audit"]},
         "other-scheduler does not only warn")
    policies = documents(text_of("components", "toleration", "policy.yaml"))
    toleration = named(policies, "MutatingAdmissionPolicy", "milligpu-toleration")["spec"]
    need("key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule'}" in
         toleration["mutations"][0]["jsonPatch"]["expression"], "toleration: adds another one")
    need(toleration["failurePolicy"] == "Ignore", "toleration: may refuse a pod if it cannot be evaluated")
    binding = named(policies, "MutatingAdmissionPolicyBinding", "milligpu-toleration")["spec"]
    need(binding == {"policyName": "milligpu-toleration"}, "toleration: the policy is not in force")


def check_the_agents_daemonset():
    """One agent per node, without a capability, and with the listed folders of its node only."""
    spec = named(documents(text_of("components", "node", "daemonset.yaml")), "DaemonSet", "milligpu-node")["spec"]
    need(spec["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0, "node: two agents of a node could run at once")
    pod = spec["template"]["spec"]
    need(pod["serviceAccountName"] == AGENT["name"], "node: the agent has another account")
    need(len(pod["containers"]) == 1 and not pod.get("initContainers"), "node: there is another container")
    for key in ("hostNetwork", "hostIPC"):
        need(not pod.get(key), f"node: {key}")
    need(pod.get("hostPID") is True, "node: without hostPID nothing is metered")
    container = pod["containers"][0]
    security = container["securityContext"]
    need(not security.get("privileged"), "node: the agent is privileged")
    need(security["allowPrivilegeEscalation"] is False, "node: the agent may escalate")
    need(security["readOnlyRootFilesystem"] is True, "node: the agent writes to its root")
    need(security["capabilities"] == {"drop": ["ALL"]}, "node: capabilities")
    need(security["seccompProfile"] == {"type": "RuntimeDefault"}, "node: seccompProfile")
    known = agent_settings()
    fields = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in container["env"] if "valueFrom" in e}
    need(fields == {"MILLIGPU_NODE_NODE": "spec.nodeName", "MILLIGPU_NODE_POD_UID": "metadata.uid"},
         f"node: the agent is told {fields}")
    for variable in fields:
        need(variable.removeprefix("MILLIGPU_NODE_").lower() in known, f"no setting of the agent for {variable}")
    places = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
    mounts = {m["name"]: m for m in container["volumeMounts"]}
    need(set(mounts) == {v["name"] for v in pod["volumes"]}, "node: volumes and mounts differ")
    seen = {(path, mounts[v]["mountPath"], mounts[v].get("readOnly", False)) for v, path in places.items()}
    need(seen == AGENT_FOLDERS, f"node: mounts {sorted(seen)}")
    others = [v for v in pod["volumes"] if "hostPath" not in v]
    keys = {"name": "keys", "configMap": {"name": "milligpu-keys", "optional": True}}
    need(others == [keys], f"node: other volumes than the keys: {others}")
    labels = spec["template"]["metadata"]["labels"]
    need(spec["selector"]["matchLabels"].items() <= labels.items(), "node: the selector does not select its pods")
    # doctor --nodes finds the pods by these
    for key, value in (("name", "milligpu"), ("component", "node")):
        need(labels.get(f"app.kubernetes.io/{key}") == value, f"node: label app.kubernetes.io/{key}")


def check_the_validators_file():
    """The file for containerd's conf.d fits every configuration: it has no higher version than the main file."""
    text = text_of("node", "milligpu-nri.toml")
    need(re.findall(r"^version = (\d+)$", text, re.M) == ["2"],
         "milligpu-nri.toml: containerd 2.3 before 2.3.5 ends if a file in conf.d has a higher version than config.toml, "
         "and 2 is the lowest")
    need(re.search(r"^\[plugins\.'io\.containerd\.nri\.v1\.nri'\.default_validator\]\n *enable = true$", text, re.M),
         "milligpu-nri.toml does not turn the validator on")


def agent_settings():
    """The settings of milligpu-node and their defaults."""
    with open(os.path.join(TOP, "include", "milligpu", "agent", "agent_settings.def"), encoding="utf-8") as file:
        return dict(re.findall(r'^SETTING\((\w+), \w+, "([^"]*)"', file.read(), re.M))


def check_mps_agrees():
    """Only the container that mounts and ends is privileged; clients get the tmpfs that the agent has at /dev/shm."""
    known = agent_settings()
    objects = documents(text_of("components", "mps", "rbac.yaml"))
    compare_rights("mps", MPS_RIGHTS, rights_of(named(objects, "ClusterRole", "milligpu-node-mps")))
    need(named(objects, "ClusterRoleBinding", "milligpu-node-mps")["subjects"] == [AGENT], "mps: binds somebody else")
    spec = documents(text_of("components", "mps", "daemonset-patch.yaml"))[0]["spec"]
    need(spec["updateStrategy"]["type"] == "OnDelete", "mps: an update of the agents ends the daemons of all nodes")
    pod = spec["template"]["spec"]
    first, agent = pod["initContainers"][0], pod["containers"][0]
    need(first["args"] == ["--prepare-mps"] and first["securityContext"]["privileged"] is True, "mps: prepare-mps")
    need(agent["securityContext"] == {"capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID"]}},
         f"mps: the agent has {agent['securityContext']}")
    for variable in [e["name"] for e in agent["env"] if e["name"].startswith("MILLIGPU_NODE_")]:
        need(variable.removeprefix("MILLIGPU_NODE_").lower() in known, f"no setting of the agent for {variable}")
    places = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]}
    mounts = {(places[m["name"]], m["mountPath"], m.get("mountPropagation")) for m in agent["volumeMounts"]}
    need(mounts == {("/run/milligpu", "/run/milligpu", "HostToContainer"), (known["mps_shm"], "/dev/shm", None)},
         f"mps: mounts {sorted(mounts, key=str)}")
    need(first["volumeMounts"] == [{"name": "run-milligpu", "mountPath": "/run/milligpu",
                                    "mountPropagation": "Bidirectional"}], "mps: prepare-mps mounts something else")
    for setting in ("mps_dir", "mps_shm"):
        need(known[setting].startswith("/run/milligpu/"), f"mps: --{setting} is not in a folder that is mounted")


def check_usage_agrees():
    """Where agents report is where milligpud listens: Service, port, certificate; and the agents' settings exist."""
    known = agent_settings()
    service = named(documents(text_of("components", "usage", "service.yaml")), "Service", "milligpu-reports")
    daemon = documents(text_of("components", "usage", "statefulset-patch.yaml"))[0]["spec"]["template"]["spec"]
    agent = documents(text_of("components", "usage", "daemonset-patch.yaml"))[0]["spec"]["template"]["spec"]
    listens = {e["name"]: e["value"] for e in daemon["containers"][0]["env"]}
    calls = {e["name"]: e["value"] for e in agent["containers"][0]["env"]}
    port = service["spec"]["ports"][0]["port"]
    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    for variable in calls:
        need(variable.removeprefix("MILLIGPU_NODE_").lower() in known, f"no setting of the agent for {variable}")
    need(calls["MILLIGPU_NODE_REPORT_URL"] == f"https://{name}:{port}", "usage: agents call another address")
    need(listens["MILLIGPU_REPORT_LISTEN"] == f"0.0.0.0:{port}", "usage: milligpud listens on another port")
    need(daemon["containers"][0]["ports"] == [{"name": "report", "containerPort": port}], "usage: containerPort")
    for policy in documents(text_of("components", "usage", "networkpolicy.yaml")):
        rule = (policy["spec"].get("ingress") or policy["spec"]["egress"])[-1]
        need(rule["ports"] == [{"protocol": "TCP", "port": port}], f"usage: {policy['metadata']['name']}")
    with open(os.path.join(TOP, "docs", "NODE.md"), encoding="utf-8") as file:
        need(f"DNS:{name}" in file.read(), f"docs/NODE.md makes no certificate for {name}")
    ends = agent["volumes"][0]["configMap"]["name"], daemon["volumes"][0]["secret"]["secretName"]
    need(ends == ("milligpu-reports-ca", "milligpu-reports-tls"), f"usage: mounts {ends}, unlike docs/NODE.md")


def check_components_have_a_row():
    """README.md has a row for each component."""
    folders = sorted(os.listdir(path_of("components")))
    need(folders == sorted([*COMPONENTS, BEFORE]), f"check.py and the folder components differ: {folders}")
    rows = re.findall(r"^\| \[([\w.-]+)\]\(components/[\w.-]+\) \|", text_of("README.md"), re.M)
    need(sorted(rows) == folders, f"README.md has rows for the components {sorted(rows)}")


def check_every_verb_has_its_reason():
    """Each verb has a comment beside it and a row in README.md; no row is left over."""
    readme = set()
    row = re.compile(r"^\| (base|advertise|node|mps) \| `([^`]+)`([^|]*)\| `([^`]+)` \| ([^|]+) \|$", re.M)
    for cells in row.findall(text_of("README.md")):
        where, resource, names, verb, reason = cells
        group, _, plain = resource.rpartition("/") if "." in resource.split("/")[0] else ("", "", resource)
        limit = re.findall(r"only `([^`]+)`", names)
        readme.add((where, group, plain, verb, tuple(limit)))
        need(len(reason.split()) >= 4, f"README.md gives no reason for {where} {resource} {verb}")
    places = (
        ("base", RIGHTS | WAKE_RIGHTS | KEYS_RIGHTS),
        ("advertise", ADVERTISE_RIGHTS),
        ("node", AGENT_RIGHTS | KEYS_RIGHTS),
        ("mps", MPS_RIGHTS),
    )
    for right in sorted({(where, *right) for where, rights in places for right in rights} ^ readme):
        problems.append(f"README.md's table of rights and the manifests differ in {right}")
    for file in (("base",), ("components", "advertise"), ("components", "node"), ("components", "mps")):
        file = (*file, "rbac.yaml")
        verbs = re.findall(r"^ +- (get|list|watch|create|update|patch|delete|\*) *(.*)$", text_of(*file), re.M)
        need(len(verbs) >= 1, f"{'/'.join(file)}: no verb stands on a line of its own")
        for verb, reason in verbs:
            need(reason.startswith("# "), f"{'/'.join(file)}: no reason stands beside the verb {verb}")


def scheduler_configurations():
    for overlay in OVERLAYS[:2]:
        for variant in ("", "-unadvertised", "-whole-gpus"):
            name = f"scheduler{variant}.yaml"
            yield f"{overlay}/{name}", variant, documents(text_of("overlays", overlay, name))[0]


def check_scheduler_configurations():
    """All six scheduler configurations have the required settings; variants differ only in what they manage."""
    for name, variant, config in scheduler_configurations():
        second = name.startswith("second")
        need(len(config["extenders"]) == 1, f"{name}: not one extender")
        e = config["extenders"][0]
        wanted = {
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "bindVerb": "bind",
            "preemptVerb": "preempt",
            "weight": 130,
            "httpTimeout": "5s",
            "nodeCacheCapable": True,
            "ignorable": False,
        }
        for key, value in wanted.items():
            need(e.get(key) == value, f"{name}: {key} is {e.get(key)}, not {value}")
        managed = {m["name"]: m["ignoredByScheduler"] for m in e["managedResources"]}
        expected = {"nvidia.com/vgpu": variant == "-unadvertised"}
        if variant == "-whole-gpus":
            expected["nvidia.com/gpu"] = False
        need(managed == expected, f"{name}: manages {managed}, not {expected}")
        need(config.get("percentageOfNodesToScore") == (100 if second else None), f"{name}: percentageOfNodesToScore")
        need(bool(e.get("enableHTTPS")) != second, f"{name}: enableHTTPS")
        if not second:
            tls = e["tlsConfig"]
            need(all(tls.get(k) for k in ("caFile", "certFile", "keyFile", "serverName")), f"{name}: tlsConfig")
            need(not tls.get("insecure"), f"{name}: tlsConfig is insecure")
        profile = "milligpu" if second else "default-scheduler"
        need([p["schedulerName"] for p in config["profiles"]] == [profile], f"{name}: profile")


def check_variants_share_their_text():
    """The scheduler configurations of one overlay are the same, word by word, before managedResources."""
    for overlay in OVERLAYS[:2]:
        heads = {
            text_of("overlays", overlay, f"scheduler{v}.yaml").split("managedResources:")[0]
            for v in ("", "-unadvertised", "-whole-gpus")
        }
        need(len(heads) == 1, f"{overlay}: the scheduler configurations differ before managedResources")


def check_autoscalers_copy():
    """docs/operate/autoscalers.md has the scheduler's file as an autoscaler needs it: whole Nodes, filter only, one profile."""
    with open(os.path.join(TOP, "docs", "operate", "autoscalers.md"), encoding="utf-8") as file:
        blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", file.read(), re.M | re.S)]
    kinds = {block.get("kind"): block for block in blocks}
    need({"Pod", "KubeSchedulerConfiguration", "NodeOverlay"} <= kinds.keys(), f"autoscalers.md: has {kinds.keys()}")
    config = kinds["KubeSchedulerConfiguration"]
    need(len(config["profiles"]) == 1, "autoscalers.md: a Cluster Autoscaler takes exactly one profile")
    e = config["extenders"][0]
    own = documents(text_of("overlays", "default-scheduler", "scheduler.yaml"))[0]["extenders"][0]
    need([key for key in e if key.endswith("Verb")] == ["filterVerb"], "autoscalers.md: a simulation calls filter only")
    need(e["nodeCacheCapable"] is False, "autoscalers.md: names say nothing of a node that does not exist yet")
    same = ("urlPrefix", "filterVerb", "enableHTTPS", "httpTimeout", "ignorable")
    need([e[key] for key in same] == [own[key] for key in same], "autoscalers.md: another extender than the scheduler's")
    need(e["tlsConfig"]["serverName"] == own["tlsConfig"]["serverName"], "autoscalers.md: another serverName")
    names = [one["name"] for one in e["managedResources"]]
    need(names == [one["name"] for one in own["managedResources"]], f"autoscalers.md: manages {names}")
    need(config["profiles"][0]["pluginConfig"][0]["args"]["ignoredResources"] == names, "autoscalers.md: ignores others")
    need(list(kinds["NodeOverlay"]["spec"]["capacity"]) == names, "autoscalers.md: the NodeOverlay has another resource")


def check_address_and_name_agree():
    """Service, scheduler and certificates use one address and one name."""
    address = documents(text_of("overlays", "default-scheduler", "service-patch.yaml"))[0]["spec"]["clusterIP"]
    certs = text_of("overlays", "default-scheduler", "certs.sh")
    need(f"${{2:-{address}}}" in certs, f"certs.sh has another address than the Service, {address}")
    for name, _, config in scheduler_configurations():
        e = config["extenders"][0]
        if e.get("enableHTTPS"):
            need(e["urlPrefix"] == f"https://{address}:8910/scheduler", f"{name}: urlPrefix {e['urlPrefix']}")
            need(f"name={e['tlsConfig']['serverName']}\n" in certs, f"{name}: certs.sh signs another serverName")
        else:
            need(e["urlPrefix"] == "http://127.0.0.1:8910/scheduler", f"{name}: urlPrefix {e['urlPrefix']}")


def check_certificates():
    """certs.sh makes certificates that verify, each for its own side only."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "certs")
        certs = path_of("overlays", "default-scheduler", "certs.sh")
        done = subprocess.run([certs, out], capture_output=True, text=True)
        need(done.returncode == 0, f"certs.sh: {done.stderr}")
        if done.returncode != 0:
            return
        files = {"client-ca.crt", "client.crt", "client.key", "server-ca.crt", "tls.crt", "tls.key"}
        need(set(os.listdir(out)) == files, f"certs.sh leaves {sorted(os.listdir(out))}")
        for ca, leaf, purpose, good in (
            ("server-ca", "tls", "sslserver", True),
            ("client-ca", "client", "sslclient", True),
            ("client-ca", "tls", "sslclient", False),
            ("server-ca", "client", "sslserver", False),
        ):
            verify = ["openssl", "verify", "-CAfile", f"{out}/{ca}.crt", "-purpose", purpose, f"{out}/{leaf}.crt"]
            verified = subprocess.run(verify, capture_output=True).returncode == 0
            need(verified == good, f"{leaf}.crt as {purpose} by {ca}: {verified}")
        again = subprocess.run([certs, out], capture_output=True)
        need(again.returncode == 1, "certs.sh overwrites a folder")
        renew_twice(certs, folder, out)


def renew_twice(certs, folder, old):
    """After certs.sh --renew, each side trusts the other's old and new certificate; only the newest two CAs are trusted."""
    for step in ("first", "second"):
        new = os.path.join(folder, step)
        done = subprocess.run([certs, "--renew", old, new], capture_output=True, text=True)
        need(done.returncode == 0, f"certs.sh --renew: {done.stderr}")
        if done.returncode != 0:
            return
        need(not [name for name in os.listdir(new) if name.endswith("ca.key")], "certs.sh --renew leaves the key of a CA")
        for name in re.findall(r"--from-file=(?:[\w.-]+=)?(\S+)", done.stdout):
            need(os.path.isfile(name), f"certs.sh --renew names {name}, which it has not made")
        for ca, leaf, purpose in (("server-ca", "tls", "sslserver"), ("client-ca", "client", "sslclient")):
            for trusted, shown, good in ((f"{new}/{ca}", old, True), (f"{new}/{ca}", new, True), (f"{old}/{ca}", new, False)):
                verify = ["openssl", "verify", "-CAfile", f"{trusted}.crt", "-purpose", purpose, f"{shown}/{leaf}.crt"]
                verified = subprocess.run(verify, capture_output=True).returncode == 0
                need(verified == good, f"{shown}/{leaf}.crt by {trusted}: {verified}")
        with open(f"{new}/client-ca.crt", encoding="ascii") as file:
            need(file.read().count("BEGIN CERTIFICATE") == 2, "certs.sh --renew: client-ca.crt has not two CAs")
        old = new
    wrong = subprocess.run([certs, "--renew", folder, os.path.join(folder, "third")], capture_output=True, text=True)
    need(wrong.returncode == 2 and "server-ca.crt" in wrong.stderr, f"certs.sh --renew of another folder: {wrong.stderr}")


def check_cert_manager_agrees():
    """cert-manager makes what certs.sh makes: the same names, each for its own side only, where milligpud reads it."""
    made = {o["metadata"]["name"]: o for file in ("authorities.yaml", "certificates.yaml")
            for o in documents(text_of("components", "cert-manager", file)) if o["kind"] == "Certificate"}
    signers = {o["metadata"]["name"]: o["spec"] for o in documents(text_of("components", "cert-manager", "authorities.yaml"))
               if o["kind"] == "Issuer"}
    certs = text_of("overlays", "default-scheduler", "certs.sh")
    name, address = re.search(r"^name=(\S+)$", certs, re.M).group(1), re.search(r"address=\$\{2:-(\S+)\}", certs).group(1)
    server, client = made["milligpu-webhook-server"]["spec"], made["milligpu-webhook-client"]["spec"]
    need((server["commonName"], server["dnsNames"], server["ipAddresses"]) == (name, [name], [address]),
         "cert-manager: the server has other names than certs.sh gives it")
    config = documents(text_of("overlays", "default-scheduler", "config.yaml"))[0]
    need(client["commonName"] == config["webhook_client_names"], "cert-manager: milligpud does not admit the client's name")
    need(not client.get("dnsNames") and not client.get("ipAddresses"), "cert-manager: the client has names of a server")
    for side, spec in (("server", server), ("client", client)):
        authority = made[f"milligpu-{side}-ca"]["spec"]
        need(spec["usages"] == ["digital signature", f"{side} auth"], f"cert-manager: {side}: usages {spec['usages']}")
        need(not spec.get("isCA") and spec["privateKey"]["rotationPolicy"] == "Always", f"cert-manager: {side}")
        need(spec["issuerRef"]["name"] == f"milligpu-{side}-ca", f"cert-manager: the {side}'s certificate is signed by another CA")
        need(signers[f"milligpu-{side}-ca"] == {"ca": {"secretName": authority["secretName"]}}, f"cert-manager: {side}: issuer")
        need(authority["isCA"] is True and authority["usages"] == ["cert sign"], f"cert-manager: {side}: CA")
        need(authority["privateKey"]["rotationPolicy"] == "Never", f"cert-manager: a new {side} CA is not trusted by the other side")
        need(signers[authority["issuerRef"]["name"]] == {"selfSigned": {}}, f"cert-manager: {side}: the CA signs itself")
        hours = [int(spec[key].removesuffix("h")) for key in ("duration", "renewBefore")]
        need(hours[1] * 2 < hours[0] < int(authority["renewBefore"].removesuffix("h")),
             f"cert-manager: {side}: a certificate may outlive its CA, or is renewed all the time")
        need(hours[1] > 14 * 24, f"cert-manager: {side}: doctor complains before the certificate is renewed")
        need(spec["secretName"] == f"milligpu-webhook-{side}", f"cert-manager: {side}: secretName")
    patch = documents(text_of("components", "cert-manager", "statefulset-patch.yaml"))[0]
    (volume,) = patch["spec"]["template"]["spec"]["volumes"]
    (usual,) = documents(text_of("overlays", "default-scheduler", "statefulset-patch.yaml"))[0]["spec"]["template"]["spec"]["volumes"]
    need((volume["name"], volume["projected"]["defaultMode"]) == (usual["name"], usual["secret"]["defaultMode"]),
         "cert-manager: another volume, or others may read it")
    files = {(s["secret"]["name"], item["key"]): item["path"] for s in volume["projected"]["sources"] for item in s["secret"]["items"]}
    need(files == {("milligpu-webhook-server", "tls.crt"): os.path.basename(config["webhook_cert"]),
                   ("milligpu-webhook-server", "tls.key"): os.path.basename(config["webhook_key"]),
                   ("milligpu-webhook-client", "ca.crt"): os.path.basename(config["webhook_client_ca"])},
         f"cert-manager: milligpud sees {files}")


def check_settings_exist():
    """The configuration files set only existing settings, and a network listener asks for certificates."""
    with open(os.path.join(TOP, "include", "milligpu", "settings", "settings.def"), encoding="utf-8") as file:
        known = set(re.findall(r"^SETTING\((\w+),", file.read(), re.M))
    for file in (("base", "config.yaml"), ("overlays", "default-scheduler", "config.yaml")):
        config = documents(text_of(*file))[0]
        for key in config:
            need(key in known, f"{'/'.join(file)}: there is no setting {key}")
        loopback = config["webhook_listen"].startswith("127.0.0.1:")
        need(loopback or config.get("webhook_client_ca"), f"{'/'.join(file)}: webhooks without a client CA")
        need(config["admin_listen"].startswith("127.0.0.1:"), f"{'/'.join(file)}: admin_listen is not loopback")
        if not loopback:
            signs = re.findall(r"^leaf client (\S+) client-ca", text_of("overlays", "default-scheduler", "certs.sh"), re.M)
            need(config.get("webhook_client_names") == ",".join(signs), f"{'/'.join(file)}: names other than {signs}")
    for component in ("advertise", "backup", "node", "policy", "usage"):
        patch = documents(text_of("components", component, "statefulset-patch.yaml"))[0]
        for variable in patch["spec"]["template"]["spec"]["containers"][0]["env"]:
            need(variable["name"].removeprefix("MILLIGPU_").lower() in known, f"no setting for {variable['name']}")


def milliseconds(path, name):
    """The value of an enumerator in the source, such as 90000 or 30 * 1000."""
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        found = re.search(rf"\b{name} = ([0-9 *]+),", file.read())
    product = 1
    for factor in found.group(1).split("*"):
        product *= int(factor)
    return product


def check_the_silence_alert():
    """MilligpuWatchSilent does not fire on a quiet cluster, fires soon on a lost one, and agrees with doctor."""
    rules = documents(text_of("components", "alerts", "rules.yaml"))[0]["spec"]["groups"][0]["rules"]
    rule = next(rule for rule in rules if rule["alert"] == "MilligpuWatchSilent")
    most_s = int(re.search(r"> ([0-9]+)$", rule["expr"]).group(1))
    quiet_ms = milliseconds(("src", "sync", "informer.c"), "SILENCE_MS")
    answer_ms = milliseconds(("src", "kube", "reflector.c"), "ANSWER_MS")
    late_ms = milliseconds(("src", "admin", "answers", "api_doctor.c"), "WATCH_LATE_MS")
    need(quiet_ms + answer_ms + 30000 <= most_s * 1000, "MilligpuWatchSilent fires on a quiet cluster")
    need(most_s * 1000 <= 2 * (quiet_ms + answer_ms), "MilligpuWatchSilent fires late")
    need(late_ms == most_s * 1000, "doctor and MilligpuWatchSilent disagree")


def check_kubeadm():
    """kubeadm's configuration and patch start kube-scheduler with the file that README.md installs."""
    file = "/etc/kubernetes/milligpu/scheduler.yaml"
    config = documents(text_of("overlays", "kubeadm", "cluster-configuration.yaml"))[0]
    need(config["scheduler"]["extraArgs"] == [{"name": "config", "value": file}], "kubeadm: extraArgs")
    need(config["scheduler"]["extraVolumes"][0]["mountPath"] == os.path.dirname(file), "kubeadm: extraVolumes")
    patch = documents(text_of("overlays", "kubeadm", "patches", "kube-scheduler+json.yaml"))[0]
    need(patch[0]["value"] == f"--config={file}", "kubeadm: the patch names another file")
    need(patch[1]["value"]["mountPath"] == os.path.dirname(file), "kubeadm: the patch mounts another folder")
    for _, _, scheduler in scheduler_configurations():
        for key in ("caFile", "certFile", "keyFile"):
            path = scheduler["extenders"][0].get("tlsConfig", {}).get(key, file)
            need(os.path.dirname(path) == os.path.dirname(file), f"kubeadm mounts no folder with {path}")


def check_network_policy(name, objects):
    # Each open port names who may reach it, and nobody may reach the admin port.
    policy = named(objects, "NetworkPolicy", "milligpu")["spec"]
    seen = set()
    for rule in policy.get("ingress", []):
        ports = {port["port"] for port in rule.get("ports", [])}
        need(len(ports) == 1, f"{name}: a rule of the NetworkPolicy is of {len(ports)} ports")
        need(rule.get("from"), f"{name}: the NetworkPolicy lets everybody reach {sorted(ports)}")
        for peer in rule.get("from", []):
            whole = peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0" and not peer["ipBlock"].get("except")
            need(peer and not whole and peer.get("namespaceSelector") != {}, f"{name}: from {peer} is everybody")
        seen |= ports
    wanted = {8912} if name == "base" or name.startswith("second") else {8910, 8912}
    need(seen == wanted, f"{name}: the NetworkPolicy opens {sorted(seen)}, not {sorted(wanted)}")


def check_containers(name, objects):
    pod = named(objects, "StatefulSet", "milligpu")["spec"]["template"]["spec"]
    need(pod["securityContext"]["runAsNonRoot"] is True, f"{name}: runAsNonRoot")
    need(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", f"{name}: seccompProfile")
    need(pod["securityContext"]["fsGroup"] == 65532, f"{name}: fsGroup")
    volumes = {v["name"] for v in pod["volumes"]} | {"ledger"}
    for c in pod["containers"]:
        security = c["securityContext"]
        need(security["allowPrivilegeEscalation"] is False, f"{name}: {c['name']} may escalate")
        need(security["readOnlyRootFilesystem"] is True, f"{name}: {c['name']} writes to its root")
        need(security["capabilities"] == {"drop": ["ALL"]}, f"{name}: capabilities of {c['name']}")
        need(not any("nvidia.com" in r for r in c["resources"].get("limits", {})), f"{name}: {c['name']} asks a GPU")
        need({m["name"] for m in c["volumeMounts"]} <= volumes, f"{name}: {c['name']} mounts what is not there")
        if c["name"] == "milligpud":
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                need(c[probe]["httpGet"]["port"] == "probe", f"{name}: {probe} is not on the probe listener")


def check_place(name, objects):
    for o in objects:
        kind, own = o["kind"], o["metadata"]["name"]
        cluster = kind in ("Namespace", "PriorityClass") or kind.startswith("Cluster") or "AdmissionPolicy" in kind
        if not cluster:
            places = {"milligpu-system"}
            if "authentication-reader" in own:
                places = {"kube-system"}
            elif own in ("milligpu-node", "milligpu-node-reports"):
                places = {"milligpu-node"}
            elif own == "milligpu-keys":  # one of milligpud alone, and one beside the agents
                places = {"milligpu-system", "milligpu-node"}
            need(o["metadata"].get("namespace") in places, f"{name}: {kind} {own} is not in {sorted(places)}")
    labels = named(objects, "Namespace", "milligpu-system")["metadata"].get("labels", {})
    need(labels.get("pod-security.kubernetes.io/enforce") == "restricted", f"{name}: pod security is not restricted")


def check_build(name, objects, roles, bound):
    if not objects:
        return
    check_containers(name, objects)
    check_network_policy(name, objects)
    check_place(name, objects)
    need(set(own_roles(objects)) == roles, f"{name}: roles are {sorted(own_roles(objects))}")
    seen = {o["roleRef"]["name"] for o in objects if o["kind"].endswith("RoleBinding")}
    need(seen == bound, f"{name}: binds {sorted(seen)}")


def check_version(name, old, objects):
    # 1.35 and older do not know these kinds, and kubectl apply fails there.
    new = [o["metadata"]["name"] for o in objects if o["kind"].startswith("MutatingAdmissionPolicy")]
    need(bool(new) != old, f"{name}: {'is for older versions, with' if old else 'has none of'} {new}")
    warns = [o for o in objects if o["kind"] == "ValidatingAdmissionPolicy"
             and o["metadata"]["name"] == "milligpu-other-scheduler"]
    need(len(warns) == 1 or not name.startswith("second"), f"{name}: does not warn of pods of other schedulers")
    for policy in warns:
        need((policy["spec"]["variables"][1]["expression"] == "[]") == old,
             f"{name}: pods without a scheduler's name, of which it warns")


def check_node_patches():
    with open(os.path.join(TOP, "docs", "operate", "nodes.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^    - patch: \|\n(?:^     .*\n)+", file.read(), re.M)
    need(len(blocks) == 3, f"docs/operate/nodes.md has {len(blocks)} patches of the DaemonSet instead of three")
    seen = [named(build_with_components("default-scheduler", ["node"], yaml.safe_load(block)), "DaemonSet",
                  "milligpu-node")["spec"]["template"] for block in ["[]", *blocks]]
    need(all(seen.index(one) == at for at, one in enumerate(seen)), "a patch of docs/operate/nodes.md changes nothing")
    pods = [one["spec"] for one in seen]
    need([any(v["name"] == "etc-cdi" for v in pod["volumes"]) for pod in pods] == [True, False, True, True],
         "docs/operate/nodes.md: the patch for a read-only /etc leaves the volume")
    need([any(m["name"] == "etc-cdi" for m in pod["containers"][0]["volumeMounts"]) for pod in pods] ==
         [True, False, True, True], "docs/operate/nodes.md: the patch for a read-only /etc leaves the mount")
    need(["runtimeClassName" in pod for pod in pods] == [True, True, False, True],
         "docs/operate/nodes.md: the patch for no RuntimeClass leaves it")
    need(["seLinuxOptions" in pod["containers"][0]["securityContext"] for pod in pods] == [False, False, False, True],
         "docs/operate/nodes.md: the patch for SELinux sets nothing")


def check_denial():
    # the patch of README.md has objects rejected that are otherwise warned of
    block = re.search(r"^    patches:\n(?:^     .*\n)*.*milligpu-other-scheduler}\n(?:^     .*\n)+", text_of("README.md"), re.M)
    need(block is not None, "README.md has no patch of milligpu-other-scheduler")
    patches = yaml.safe_load(block.group(0))["patches"] if block else []
    for overlay in ("second-scheduler", "second-scheduler-before-1.36"):
        objects = build_with_components(overlay, [], patches)
        binding = named(objects, "ValidatingAdmissionPolicyBinding", "milligpu-other-scheduler")["spec"]
        need(binding.get("validationActions") == ["Deny"], f"{overlay}: README.md's patch denies nothing")


def check_install_page():
    # the kustomization of docs/operate/install.md, beside a clone of this repository
    with open(os.path.join(TOP, "docs", "operate", "install.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```yaml\n(apiVersion: kustomize.*?)^```", file.read(), re.M | re.S)
    need(len(blocks) == 1, f"docs/operate/install.md has {len(blocks)} kustomizations instead of one")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(path_of(), os.path.join(folder, "milligpu", "manifests"))
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
            file.write(blocks[0])
        objects = build(os.path.realpath(folder))
    images = {image for o in objects for image in re.findall(r'"image": "([^"]+)"', json.dumps(o))}
    need({image.rsplit("/", 1)[0] for image in images} == {"registry.example.com", "registry.k8s.io"},
         f"docs/operate/install.md: its kustomization leaves the images {images}")
    schedulers = [o["data"]["scheduler.yaml"] for o in objects if o["kind"] == "ConfigMap" and "scheduler.yaml" in o["data"]]
    need(len(schedulers) == 1 and "ignoredByScheduler: true" in schedulers[0],
         "docs/operate/install.md: kube-scheduler would count a resource that nodes do not show")
    kinds = {o["kind"] for o in objects}
    need({"StatefulSet", "DaemonSet", "MutatingAdmissionPolicy"} <= kinds, f"docs/operate/install.md: builds only {kinds}")


def pod_templates():
    """The pods of the manifests, with their namespaces."""
    for parts in (("base", "statefulset.yaml"), ("components", "node", "daemonset.yaml")):
        o = documents(text_of(*parts))[0]
        yield o["metadata"]["namespace"], o["spec"]["template"]


def pod_monitors():
    for path in sorted(glob.glob(path_of("components", "*", "podmonitor*.yaml"))):
        with open(path, encoding="utf-8") as file:
            yield from documents(file.read())


def check_pod_monitors():
    """Each PodMonitor finds one pod template and its port, and keeps the labels that series bring."""
    paths = []
    for monitor in pod_monitors():
        name, spec = monitor["metadata"]["name"], monitor["spec"]
        where = spec.get("namespaceSelector", {}).get("matchNames", [monitor["metadata"]["namespace"]])
        found = [template for namespace, template in pod_templates() if namespace in where and
                 spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()]
        need(len(found) == 1, f"PodMonitor {name}: finds {len(found)} kinds of pods")
        ports = {port["name"] for template in found for one in template["spec"]["containers"] for port in one.get("ports", [])}
        for endpoint in spec["podMetricsEndpoints"]:
            need(endpoint["port"] in ports, f"PodMonitor {name}: there is no port {endpoint['port']}")
            need(endpoint.get("honorLabels") is True,
                 f"PodMonitor {name}: its own labels would take the place of namespace, pod and container")
            paths.append((where[0], endpoint["path"]))
    need(sorted(paths) == [("milligpu-node", "/metrics"), ("milligpu-system", "/metrics"), ("milligpu-system", "/metrics/nodes")],
         f"the PodMonitors read {paths}")
    with open(os.path.join(TOP, "src", "admin", "routes.def"), encoding="utf-8") as file:
        routes = re.findall(r'^ROUTE\(\w+, "GET", "([^"]+)"', file.read(), re.M)
    need({path for _, path in paths} <= set(routes), f"a PodMonitor reads a path that is not among {routes}")


def scrape_job(monitor):
    """The job of a Prometheus without the operator that does what a PodMonitor says."""
    spec, name = monitor["spec"], monitor["metadata"]["name"]
    endpoint, = spec["podMetricsEndpoints"]
    where = spec.get("namespaceSelector", {}).get("matchNames", [monitor["metadata"]["namespace"]])
    pods = "__meta_kubernetes_pod_"
    keep = {"source_labels": [pods + "label_app_kubernetes_io_component", pods + "container_port_name"], "action": "keep",
            "regex": f"{spec['selector']['matchLabels']['app.kubernetes.io/component']};{endpoint['port']}"}
    labels = {"namespace": "__meta_kubernetes_namespace", "pod": pods + "name", "container": pods + "container_name"}
    labels.update({one["targetLabel"]: one["sourceLabels"][0] for one in endpoint.get("relabelings", [])})
    return {"job_name": name, "metrics_path": endpoint["path"], "scrape_interval": endpoint["interval"],
            "honor_labels": endpoint["honorLabels"], "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": where}}],
            "relabel_configs": [keep, *({"source_labels": [source], "target_label": label} for label, source in labels.items())]}


def check_scrape_file():
    """The jobs for a Prometheus without the operator do what the PodMonitors do."""
    jobs = documents(text_of("prometheus", "scrape.yaml"))[0]["scrape_configs"]
    wanted = {job["job_name"]: job for job in map(scrape_job, pod_monitors())}
    need([job["job_name"] for job in jobs] == ["milligpu", "milligpu-nodes", "milligpu-agents"], "scrape.yaml has other jobs")
    for job in jobs:
        need(job == wanted.get(job["job_name"]), f"scrape.yaml: {job} is not {wanted.get(job['job_name'])}")


def built_checks():
    """Base, overlays and components build into the expected objects."""
    own, agents = USER["namespace"], AGENT["namespace"]
    roles = {("ClusterRole", "", "milligpu"), ("Role", own, "milligpu-bell"), ("Role", own, "milligpu-keys")}
    more_roles = {("ClusterRole", "", "milligpu-advertise"), ("ClusterRole", "", "milligpu-node"),
                  ("ClusterRole", "", "milligpu-node-mps"), ("Role", agents, "milligpu-keys")}
    bound = {"milligpu", "milligpu-bell", "milligpu-keys"}
    scheduler = {"system:kube-scheduler", "system:volume-scheduler", "extension-apiserver-authentication-reader"}
    check_build("base", build(path_of("base")), roles, bound)
    for overlay in OVERLAYS:
        more = scheduler if overlay.startswith("second-scheduler") else set()
        check_build(overlay, build(path_of("overlays", overlay)), roles, bound | more)
        has = components_of(overlay)
        check_version(overlay, BEFORE in has, build(path_of("overlays", overlay)))
        rest = [c for c in COMPONENTS if BEFORE in has or c not in has]
        if BEFORE in has:
            rest.remove("other-scheduler")
        check_version(overlay, True, build_with_components(overlay, [*rest, BEFORE]))
        full = build_with_components(overlay, rest)
        check_build(f"{overlay} with all components", full, roles - {("Role", own, "milligpu-keys")} | more_roles,
                    bound | more | {"milligpu-advertise", "milligpu-node", "milligpu-node-mps"})
    for component in set(COMPONENTS) - set(components_of("default-scheduler")):
        one = build_with_components("default-scheduler", [*NEEDS.get(component, []), component])
        need(len(one) > 0, f"component {component} builds nothing")
    check_node_patches()
    check_denial()
    check_install_page()
    need([o["kind"] for o in build(path_of("restore"))] == ["Job"], "restore builds something else than a Job")
    check_newest()


def check_newest():
    # the Job that restores the newest backup differs in where the backup comes from, and in nothing else
    (plain,), (newest,) = build(path_of("restore")), build(path_of("restore-newest"))
    pod, usual = newest["spec"]["template"]["spec"], plain["spec"]["template"]["spec"]
    job = documents(text_of("components", "backup", "cronjob.yaml"))[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (folder,) = [mount["mountPath"] for mount in job["containers"][0]["volumeMounts"] if mount["name"] == "backups"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "backups"]
    need(volume in job["volumes"], "restore-newest mounts another claim than the backups'")
    mount = {"name": "backups", "mountPath": folder, "readOnly": True}
    need(mount in pod["containers"][0]["volumeMounts"], f"restore-newest does not mount {folder}, or not read-only")
    command = pod["containers"][0]["command"]
    need(command[:3] == ["milligpuctl", "restore", folder], f"restore-newest runs {command}")
    pod["volumes"].remove(volume)
    pod["containers"][0]["volumeMounts"].remove(mount)
    pod["containers"][0]["command"][2] = usual["containers"][0]["command"][2]
    need(newest == plain, "restore-newest differs from restore in more than the backup")


def check_restore_job():
    """The Job that restores a backup has the volume, the user and the confinement of milligpud, and its program."""
    (job,) = documents(text_of("restore", "job.yaml"))
    (daemon,) = documents(text_of("base", "statefulset.yaml"))
    ours, theirs = job["spec"]["template"]["spec"], daemon["spec"]["template"]["spec"]
    (one,), (other,) = ours["containers"], theirs["containers"]
    claim = f"{daemon['spec']['volumeClaimTemplates'][0]['metadata']['name']}-{daemon['metadata']['name']}-0"
    volumes = {volume["name"]: volume for volume in ours["volumes"]}
    need(volumes["ledger"]["persistentVolumeClaim"]["claimName"] == claim, f"the Job does not mount {claim}")
    need(job["metadata"]["namespace"] == daemon["metadata"]["namespace"], "the Job is in another namespace")
    need(ours["securityContext"] == theirs["securityContext"], "the Job's pod has another securityContext")
    for field in ("image", "securityContext"):
        need(one[field] == other[field], f"the Job's container has another {field}")
    mounts = [mount for mount in other["volumeMounts"] if mount["name"] != "config"]
    need(one["volumeMounts"] == mounts, "the Job mounts its volumes elsewhere than milligpud")
    ledger = yaml.safe_load(text_of("base", "config.yaml"))["ledger"]
    need(one["command"][-1] == ledger, "the Job restores another file than milligpud's ledger")


def check_backup_agrees():
    """The CronJob is confined as milligpud is, runs beside it, sees the folder of its socket alone, and keeps what fits."""
    (job,) = documents(text_of("components", "backup", "cronjob.yaml"))
    (daemon,) = documents(text_of("base", "statefulset.yaml"))
    (claim,) = documents(text_of("components", "backup", "claim.yaml"))
    (patch,) = documents(text_of("components", "backup", "statefulset-patch.yaml"))
    ours, theirs = job["spec"]["jobTemplate"]["spec"]["template"]["spec"], daemon["spec"]["template"]["spec"]
    (one,), (other,) = ours["containers"], theirs["containers"]
    need(ours["securityContext"] == theirs["securityContext"], "backup: the pod has another securityContext")
    for field in ("image", "securityContext"):
        need(one[field] == other[field], f"backup: the container has another {field}")
    need(ours["automountServiceAccountToken"] is False and "serviceAccountName" not in ours, "backup: the pod has a token")
    need(job["spec"]["concurrencyPolicy"] == "Forbid", "backup: two Jobs may run at once")
    (near,) = ours["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    need(near == {"labelSelector": {"matchLabels": daemon["spec"]["selector"]["matchLabels"]},
                  "topologyKey": "kubernetes.io/hostname"}, "backup: the Job need not run on milligpud's node")

    (variable,) = patch["spec"]["template"]["spec"]["containers"][0]["env"]
    (ledger,) = [mount["mountPath"] for mount in other["volumeMounts"] if mount["name"] == "ledger"]
    mounts = {mount["name"]: mount for mount in one["volumeMounts"]}
    template = daemon["spec"]["volumeClaimTemplates"][0]
    volumes = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in ours["volumes"] if "persistentVolumeClaim" in v}
    need(volumes == {"ledger": f"{template['metadata']['name']}-{daemon['metadata']['name']}-0",
                     "backups": claim["metadata"]["name"]}, f"backup: mounts the claims {volumes}")
    need(variable["value"] == f"{ledger}/{mounts['ledger'].get('subPath')}/admin.sock",
         "backup: milligpud's socket is not in the folder that the Job mounts, or the Job mounts more")
    need(mounts["ledger"].get("readOnly") is True, "backup: the Job may write to the ledger's volume")
    need(one["command"] == ["milligpuctl", "backup", f"--server=unix:{mounts['ledger']['mountPath']}/admin.sock",
                            "--keep=14", mounts["backups"]["mountPath"]], f"backup: runs {one['command']}")
    sizes = [float(c["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) for c in (template, claim)]
    need(sizes[0] * 0.3 * 15 <= sizes[1], "backup: 14 backups of a full ledger and a new one do not fit")
    (policy,) = documents(text_of("components", "backup", "networkpolicy.yaml"))
    labels = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    need(policy["spec"] == {"podSelector": {"matchLabels": {k: labels[k] for k in ("app.kubernetes.io/name",
                                                                                "app.kubernetes.io/component")}},
                            "policyTypes": ["Ingress", "Egress"]}, "backup: the pod may reach the network")


def check_image_tags():
    """The manifests name the images as scripts/build-images.sh does: by the version of the tree."""
    with open(os.path.join(TOP, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"^project\(milligpu VERSION ([0-9.]+)", file.read(), re.M).group(1)
    for folder, name in (("base", "milligpud"), ("restore", "milligpud"), ("components/backup", "milligpud"), ("components/node", "milligpu-node"),
                         ("components/mps", "milligpu-node")):
        (kustomization,) = documents(text_of(folder, "kustomization.yaml"))
        need(kustomization.get("images") == [{"name": name, "newTag": version}], f"{folder} does not name {name}:{version}")


def main():
    for name, check in sorted(globals().items()):
        if name.startswith("check_") and check.__doc__:
            run(check)
    if KUBECTL:
        run(built_checks)
    else:
        print("skip - no kubectl here: the kustomizations are not built")
    finish("manifests")


main()
