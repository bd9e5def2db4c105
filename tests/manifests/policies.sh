#!/usr/bin/env bash
# policies.sh - test the admission policies of manifests/components through a real kube-apiserver
#
#   tests/manifests/policies.sh KUBECONFIG        (KUBECTL=kubectl)
#
# For a test cluster: it installs the policies and the ServiceAccount's rights, creates a few pods in the namespace
# default that nobody schedules, and removes policies and pods at the end. Below Kubernetes 1.36 the mutating policies
# are left out, and the output says so.
set -uo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "policies.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
if [ $# -ne 1 ] || [ ! -r "$1" ]; then
    echo "policies.sh: name a readable kubeconfig of a test cluster: policies.sh KUBECONFIG" >&2
    exit 2
fi
export KUBECONFIG=$1
kubectl=${KUBECTL:-kubectl}
top=$(cd "$(dirname "$0")/../.." && pwd)
components=$top/manifests/components
user=system:serviceaccount:milligpu-system:milligpu
pod=policy-$$
failed=0
count=0

k() {
    "$kubectl" "$@"
}

ok() {
    count=$((count + 1))
    echo "ok $count - $1"
}

not_ok() { # SENTENCE WANTED SEEN
    count=$((count + 1))
    failed=$((failed + 1))
    printf 'not ok %s - %s\n  wanted: %s\n  seen:   %s\n' "$count" "$1" "$2" "$3"
}

equal() { # SENTENCE WANTED SEEN
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$@"; fi
}

contains() { # SENTENCE PART TEXT
    case $3 in
    *"$2"*) ok "$1" ;;
    *) not_ok "$@" ;;
    esac
}

# Prints what the jsonpath selects from the pod as admitted; nothing is stored.
admitted() { # JSONPATH < POD
    k create --dry-run=server -f - -o "jsonpath=$1" 2>&1
}

# A pod with one container "app" that requests AMOUNT; ANNOTATIONS is a YAML flow mapping.
asking() { # AMOUNT [ANNOTATIONS [NAME]]
    cat <<EOF
apiVersion: v1
kind: Pod
metadata: {name: "${3:-$pod}", namespace: default, annotations: ${2:-"{}"}}
spec:
  schedulerName: nobody
  containers:
    - {name: app, image: none, resources: {limits: {nvidia.com/vgpu: "$1"}}}
EOF
}

# Containers that request GPUs and others that do not, init containers and a sidecar among them; two set the variable
# themselves, and one requests a whole GPU.
mixed() {
    cat <<EOF
apiVersion: v1
kind: Pod
metadata: {name: $pod, namespace: default}
spec:
  initContainers:
    - {name: load, image: none, resources: {limits: {nvidia.com/vgpu: "700"}}}
    - {name: side, image: none, restartPolicy: Always, resources: {limits: {nvidia.com/vgpu: "100"}}}
    - {name: plain-init, image: none, env: [{name: A, value: b}]}
  containers:
    - {name: app, image: none, env: [{name: A, value: b}], resources: {limits: {nvidia.com/vgpu: "300"}}}
    - {name: second, image: none, resources: {limits: {nvidia.com/vgpu: "400"}}}
    - {name: plain, image: none}
    - {name: zero, image: none, resources: {limits: {nvidia.com/vgpu: "0"}}}
    - {name: own, image: none, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}], resources: {limits: {nvidia.com/vgpu: "100"}}}
    - {name: own-plain, image: none, env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}]}
    - {name: whole, image: none, resources: {limits: {nvidia.com/gpu: "1"}}}
EOF
}

binding() { # NAME UID ANNOTATION
    cat <<EOF
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"$1","uid":"$2","annotations":{"$3":"0"}},
 "target":{"apiVersion":"v1","kind":"Node","name":"nowhere"}}
EOF
}

clean() {
    for name in "$pod" "$pod-other"; do
        k -n default delete pod "$name" --ignore-not-found --grace-period=0 --force >/dev/null 2>&1
    done
    for c in $installed; do
        k delete -k "$components/$c" --ignore-not-found >/dev/null 2>&1
    done
    k delete -k "$other" --ignore-not-found >/dev/null 2>&1
    rm -rf "$work"
}

# Policies take effect about a second after they are created.
wait_for() { # PART JSONPATH < POD
    local body i
    body=$(cat)
    for i in $(seq 60); do
        case $(printf '%s\n' "$body" | admitted "$2") in *"$1"*) return 0 ;; esac
        sleep 0.5
    done
    echo "policies.sh: no sign of the policies after 30 s: wanted '$1'" >&2
    exit 1
}

# Prints where a container gets the variable from: a fixed value or a field.
variable() { # LIST CONTAINER
    local env=".spec.$1[?(@.name==\"$2\")].env[?(@.name==\"NVIDIA_VISIBLE_DEVICES\")]"
    mixed | admitted "{$env.value}{$env.valueFrom.fieldRef.fieldPath}"
}

one_line() {
    cat <<EOF
apiVersion: v1
kind: Pod
metadata: {name: $pod, namespace: default}
spec: {containers: [{name: app, image: none, resources: {limits: {nvidia.com/vgpu: "${1:-300}"}}}]}
EOF
}

test_zero_touch() {
    local c
    wait_for milligpu '{.spec.schedulerName}' < <(one_line)
    wait_for visible-devices '{.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath}' < <(one_line)
    for c in app second; do
        equal "asking container $c reads its annotation" "metadata.annotations['visible-devices.milligpu.io/$c']" \
            "$(variable containers $c)"
    done
    for c in load side; do
        equal "asking init container $c reads its annotation" \
            "metadata.annotations['visible-devices.milligpu.io/$c']" "$(variable initContainers $c)"
    done
    equal 'a container that does not ask sees no GPU' void "$(variable containers plain)"
    equal 'a container that asks 0 sees no GPU' void "$(variable containers zero)"
    equal 'an init container that does not ask sees no GPU' void "$(variable initContainers plain-init)"
    equal 'a variable of the pod itself is left alone' all "$(variable containers own)"
    equal 'also where the container does not ask' none "$(variable containers own-plain)"
    equal 'a container with a whole GPU is left to the device plugin' '' "$(variable containers whole)"
    equal 'other variables are kept, behind ours' 'NVIDIA_VISIBLE_DEVICES A' \
        "$(mixed | admitted '{.spec.containers[0].env[*].name}')"
    equal 'a pod that asks 0 is not touched' '' "$(one_line 0 | admitted '{.spec.containers[0].env}')"
    equal 'a pod of 128 containers is within the limits of a policy' 128 "$(many | grep -c .)"
}

many() {
    { echo 'apiVersion: v1'
      echo 'kind: Pod'
      echo "metadata: {name: $pod, namespace: default}"
      echo 'spec:'
      echo '  containers:'
      for i in $(seq 128); do
          echo "    - {name: c$i, image: none, resources: {limits: {nvidia.com/vgpu: \"10\"}}}"
      done
    } | admitted '{range .spec.containers[*]}{.env[0].valueFrom.fieldRef.fieldPath}{"\n"}{end}'
}

test_scheduler_name() {
    equal 'an asking pod of the default scheduler becomes ours' milligpu "$(one_line | admitted '{.spec.schedulerName}')"
    equal 'an asking pod of another scheduler stays there' nobody "$(asking 300 | admitted '{.spec.schedulerName}')"
    equal 'a pod that does not ask keeps the default' default-scheduler \
        "$(one_line 0 | admitted '{.spec.schedulerName}')"
}

test_toleration() {
    local t='{range .spec.tolerations[?(@.key=="nvidia.com/gpu")]}{.operator} {.effect};{end}'
    equal 'an asking pod tolerates the taint of GPU nodes' 'Exists NoSchedule;' "$(one_line | admitted "$t")"
    equal 'a pod that asks 0 does not' '' "$(one_line 0 | admitted "$t")"
    equal 'a toleration of the author is not repeated' 'Exists ;' "$(one_line |
        sed 's/^spec: {/&tolerations: [{key: nvidia.com\/gpu, operator: Exists}], /' | admitted "$t")"
}

# kubectl prints a warning before the name of the pod.
test_other_scheduler() { # DEFAULT-NAME-IS-WARNED-OF
    local i words='names scheduler nobody; milligpu serves milligpu: set spec.schedulerName: milligpu'
    k apply -k "$other" >/dev/null || exit 1
    for i in $(seq 60); do
        case $(asking 300 | admitted '{.metadata.name}') in *Warning*) break ;; esac
        sleep 0.5
    done
    contains 'a pod of another scheduler is warned of, and passes' "$words" "$(asking 300 | admitted '{.metadata.name}')"
    equal 'not one that asks 0' "$pod" "$(asking 0 | admitted '{.metadata.name}')"
    equal 'nor one of ours' "$pod" "$(asking 300 | sed 's/nobody/milligpu/' | admitted '{.metadata.name}')"
    if "$1"; then
        contains 'a pod that names no scheduler is warned of' "${words/nobody/default-scheduler}" \
            "$(one_line | admitted '{.metadata.name}')"
    else
        equal 'a pod that names no scheduler is not' "$pod" "$(one_line | admitted '{.metadata.name}')"
    fi
    k patch validatingadmissionpolicybinding milligpu-other-scheduler --type=merge \
        -p '{"spec":{"validationActions":["Deny"]}}' >/dev/null
    for i in $(seq 60); do
        case $(asking 300 | admitted '{.metadata.name}') in *denied*) break ;; esac
        sleep 0.5
    done
    contains 'it can be denied instead' 'denied request' "$(asking 300 | admitted '{.metadata.name}')"
    k delete -k "$other" >/dev/null
    for i in $(seq 60); do # until the API server has noticed
        case $(asking 300 | admitted '{.metadata.name}') in *denied*) sleep 0.5 ;; *) break ;; esac
    done
}

refused() { # SENTENCE PART AMOUNT [ANNOTATIONS]
    contains "$1" "$2" "$(asking "$3" "${4:-"{}"}" | admitted '{.metadata.name}')"
}

passes() { # SENTENCE AMOUNT [ANNOTATIONS]
    equal "$1" "$pod" "$(asking "$2" "${3:-"{}"}" | admitted '{.metadata.name}')"
}

test_amounts() {
    wait_for 1500 '{.metadata.name}' < <(asking 1500)
    refused '1500 is refused, and the text says what to write' \
        'container app asks nvidia.com/vgpu: 1500; write at most 1000 for a share of one GPU, or 1000 or 2000 for whole' 1500
    refused '2500 is refused too, with its own neighbours' 'or 2000 or 3000 for whole GPUs' 2500
    passes '300 passes' 300
    passes '1000 passes' 1000
    passes '1k passes' 1k
    passes '3000 passes' 3000
    passes '0 passes' 0
    passes '600 on two GPUs passes' 600 '{milligpu.io/gpu-count: "2"}'
    passes '1500 on two GPUs passes' 1500 '{milligpu.io/gpu-count: "2"}'
    passes 'blanks around a count and zeros before it do not matter' 600 '{milligpu.io/gpu-count: " 02 "}'
    passes '64000 passes' 64000
    refused '65000 is more than a node has' 'write at most 64000' 65000
    refused 'a count above 64 is refused' "is '65'; write 1 to 64" 650 '{milligpu.io/gpu-count: "65"}'
    refused 'an empty count is refused' "is ''" 600 '{milligpu.io/gpu-count: ""}'
    passes 'the count of the container rules' 900 '{milligpu.io/gpu-count: "7", gpu-count.milligpu.io/app: "3"}'
    refused '600 on seven GPUs is refused' 'a multiple of 7 up to 7000' 600 '{milligpu.io/gpu-count: "7"}'
    refused '3000 on two GPUs is refused' 'a multiple of 2 up to 2000' 3000 '{milligpu.io/gpu-count: "2"}'
    refused 'a count that is no number is refused' "is 'two'" 600 '{milligpu.io/gpu-count: "two"}'
    refused 'a count of 0 is refused' "is '0'" 600 '{milligpu.io/gpu-count: "0"}'
    contains 'a Deployment is refused as its pods would be' 'asks nvidia.com/vgpu: 1500' \
        "$(k create deployment "$pod" --image=none --dry-run=client -o json |
            sed 's/"resources": {}/"resources": {"limits": {"nvidia.com\/vgpu": "1500"}}/' | admitted '{.metadata.name}')"
    contains 'a CronJob is, too' 'asks nvidia.com/vgpu: 1500' \
        "$(k create cronjob "$pod" --image=none --schedule='0 0 * * *' --dry-run=client -o json |
            sed 's/"resources": {}/"resources": {"limits": {"nvidia.com\/vgpu": "1500"}}/' | admitted '{.metadata.name}')"
    equal 'a Deployment that asks nothing passes' "$pod" \
        "$(k create deployment "$pod" --image=none --dry-run=client -o json | admitted '{.metadata.name}')"
}

test_forged_annotations() {
    local key
    wait_for 'gave to another pod' '{.metadata.name}' < <(asking 300 '{milligpu.io/allocation: "x"}')
    for key in milligpu.io/allocation milligpu.io/visible-devices milligpu.io/signature visible-devices.milligpu.io/app; do
        refused "nobody creates a pod with $key" "annotation $key tells what milligpu gave to another pod" 300 "{$key: \"0\"}"
    done
    refused 'a copy is told what to remove' 'remove milligpu.io/allocation, milligpu.io/visible-devices and milligpu.io/signature,' 300 \
        '{milligpu.io/visible-devices: "0"}'
    contains 'a name that is made up does not help' 'gave to another pod' \
        "$(asking 300 '{milligpu.io/allocation: "x"}' | sed "s/name: \"$pod\"/generateName: \"$pod-\"/" | admitted '{.metadata.name}')"
    contains 'nor does apply on the server' 'gave to another pod' \
        "$(asking 300 '{milligpu.io/allocation: "x"}' | k apply --server-side -f - 2>&1)"
    for key in required-plugins.noderesource.dev required-plugins.noderesource.dev/pod \
        required-plugins.noderesource.dev/container.app; do
        refused "nor one that says itself which plugins it needs: $key" "annotation $key is written by milligpu" 300 \
            "{$key: \"[]\"}"
        refused "also beside the agent: $key" "annotation $key is written by milligpu" 300 "{$key: '[\"milligpu\", \"a\"]'}"
        passes "but it may need the agent from the beginning: $key" 300 "{$key: '[\"milligpu\"]'}"
        passes "a pod that asks nothing may say what it likes: $key" 0 "{$key: \"[]\"}"
    done
    passes 'another key that begins alike is nobody elses' 300 '{required-plugins.noderesource.developer: "x"}'
    passes 'other annotations of ours are for the author' 300 '{milligpu.io/gpu-model: "A100*"}'
    asking 300 '{a: b}' | k create -f - >/dev/null || not_ok 'a pod is made' created 'see above'
    contains 'nobody adds one later' 'is written by milligpu' \
        "$(k -n default annotate pod "$pod" milligpu.io/visible-devices=0 2>&1)"
    contains 'not by its status either' 'is written by milligpu' \
        "$(k -n default patch pod "$pod" --subresource=status --type=merge \
            -p '{"metadata":{"annotations":{"milligpu.io/allocation":"x"}}}' 2>&1)"
    contains 'nor by apply on the server, which would own it' 'is written by milligpu' \
        "$(asking 300 '{milligpu.io/allocation: "x"}' | k apply --server-side --force-conflicts -f - 2>&1)"
    for key in '[]' '["milligpu"]'; do
        contains "nor which plugins it needs: $key" 'is written by milligpu' \
            "$(k -n default annotate pod "$pod" required-plugins.noderesource.dev/container.app="$key" 2>&1)"
    done
    # These two subresources write only their own fields, whatever else is sent.
    k -n default patch pod "$pod" --subresource=ephemeralcontainers --type=strategic -p '{"metadata":{"annotations":{
        "milligpu.io/allocation":"x"}},"spec":{"ephemeralContainers":[{"name":"debug","image":"none"}]}}' >/dev/null 2>&1
    k -n default patch pod "$pod" --subresource=resize --type=strategic -p '{"metadata":{"annotations":{
        "milligpu.io/allocation":"x"}}}' >/dev/null 2>&1
    equal 'nor with a container to debug it or other amounts of CPU' 'debug ' "$(k -n default get pod "$pod" \
        -o 'jsonpath={.spec.ephemeralContainers[*].name} {.metadata.annotations.milligpu\.io/allocation}')"
    contains 'other annotations may change' annotated "$(k -n default annotate pod "$pod" c=d 2>&1)"
}

test_bindings() {
    local key uid path=/api/v1/namespaces/default/pods/$pod/binding
    uid=$(k -n default get pod "$pod" -o 'jsonpath={.metadata.uid}')
    contains 'a Binding of somebody else carries none of ours' 'may be set only by' \
        "$(binding "$pod" "$uid" milligpu.io/visible-devices | k create --raw "$path" -f - 2>&1)"
    contains 'nor does one in the old way' 'may be set only by' \
        "$(binding "$pod" "$uid" milligpu.io/visible-devices |
            k create --raw /api/v1/namespaces/default/bindings -f - 2>&1)"
    for key in milligpu.io/signature required-plugins.noderesource.dev/pod; do
        contains "not even $key" 'may be set only by' \
            "$(binding "$pod" "$uid" "$key" | k create --raw "$path" -f - 2>&1)"
    done
    contains 'our Binding is accepted' '"status":"Success"' \
        "$(binding "$pod" "$uid" milligpu.io/visible-devices | k create --raw "$path" --as="$user" -f - 2>&1)"
    equal 'it has set node and annotation' 'nowhere 0' "$(k -n default get pod "$pod" \
        -o 'jsonpath={.spec.nodeName} {.metadata.annotations.milligpu\.io/visible-devices}')"
    contains 'nobody changes what it wrote' 'is written by milligpu' \
        "$(k -n default annotate --overwrite pod "$pod" milligpu.io/visible-devices=1 2>&1)"
    contains 'nobody removes it' 'is written by milligpu' \
        "$(k -n default annotate pod "$pod" milligpu.io/visible-devices- 2>&1)"
    contains 'labels of a bound pod stay free' labeled "$(k -n default label pod "$pod" e=f 2>&1)"
    contains 'so does its status' patched "$(k -n default patch pod "$pod" --subresource=status --type=merge \
        -p '{"status":{"phase":"Running"}}' 2>&1)"
    asking 0 '{milligpu.io/gpu-memory: 1Gi}' "$pod-other" | k create -f - >/dev/null
    contains 'a pod that waits may ask otherwise' annotated \
        "$(k -n default annotate pod "$pod-other" milligpu.io/gpu-count=2 2>&1)"
    uid=$(k -n default get pod "$pod-other" -o 'jsonpath={.metadata.uid}')
    contains 'a Binding of another scheduler passes' '"status":"Success"' "$(binding "$pod-other" "$uid" other/one |
        k create --raw "/api/v1/namespaces/default/pods/$pod-other/binding" -f - 2>&1)"
}

# A pod with a container that requests AMOUNT; the pod names its node itself.
placed() { # AMOUNT [NODE]
    cat <<EOF
apiVersion: v1
kind: Pod
metadata: {name: $pod-placed, namespace: default}
spec:
  nodeName: "${2-nowhere}"
  containers:
    - {name: plain, image: none}
    - {name: app, image: none, resources: {limits: {nvidia.com/vgpu: "$1"}}}
EOF
}

# Prints the result for this user, who may create pods in any case.
placed_by() { # USER GROUP AMOUNT
    placed "$3" | k create --dry-run=server -f - -o 'jsonpath={.metadata.name}' --as="$1" --as-group=system:masters \
        --as-group="$2" 2>&1
}

test_placement() {
    local accounts
    wait_for 'names node nowhere itself' '{.metadata.name}' < <(placed 300)
    contains 'a pod that asks and names its node is refused' \
        'container app asks nvidia.com/vgpu, and the pod names node nowhere itself' \
        "$(placed 64000 | admitted '{.metadata.name}')"
    equal 'a pod that names its node and asks nothing passes' "$pod-placed" "$(placed 0 | admitted '{.metadata.name}')"
    equal 'a pod that asks and names no node passes' "$pod-placed" "$(placed 300 '' | admitted '{.metadata.name}')"
    contains 'an init container that asks is refused too' 'container load asks' "$(cat <<EOF | admitted '{.metadata.name}'
apiVersion: v1
kind: Pod
metadata: {name: $pod-placed, namespace: default}
spec:
  nodeName: nowhere
  initContainers: [{name: load, image: none, resources: {limits: {nvidia.com/vgpu: "100"}}}]
  containers: [{name: app, image: none}]
EOF
)"
    contains 'a user is refused, whatever its groups' 'names node nowhere itself' "$(placed_by jane developers 300)"
    equal 'a node tells of its static pods' "$pod-placed" "$(placed_by system:node:nowhere system:nodes 300)"
    equal 'an account of the list passes' "$pod-placed" \
        "$(placed_by system:serviceaccount:kube-system:daemon-set-controller system:serviceaccounts 300)"
    accounts='{"op":"replace","path":"/spec/variables/0/expression","value":"['"'jane'"']"}'
    k patch validatingadmissionpolicy milligpu-guard-placement --type=json -p "[$accounts]" >/dev/null
    for _ in $(seq 60); do
        [ "$(placed_by jane developers 300)" = "$pod-placed" ] && break
        sleep 0.5
    done
    equal 'the list is the first variable' "$pod-placed" "$(placed_by jane developers 300)"
}

test_requests() {
    local key patch
    for key in milligpu.io/gpu-count gpu-count.milligpu.io/app milligpu.io/gpu-model milligpu.io/gpu-memory \
        milligpu.io/topology; do
        contains "nobody writes $key on a bound pod" "annotation $key was read when the pod was bound to nowhere" \
            "$(k -n default annotate pod "$pod" "$key=1" 2>&1)"
    done
    patch='{"metadata":{"annotations":{"milligpu.io/gpu-count":"7"}}}'
    contains 'not by its status either' 'changes nothing any more' \
        "$(k -n default patch pod "$pod" --subresource=status --type=merge -p "$patch" 2>&1)"
    contains 'what was there cannot be taken away' 'annotation milligpu.io/gpu-memory was read' \
        "$(k -n default annotate pod "$pod-other" milligpu.io/gpu-memory- 2>&1)"
    contains 'other annotations of a bound pod may change' annotated "$(k -n default annotate pod "$pod" g=h 2>&1)"
    contains 'kubelet writes its status' patched "$(k -n default patch pod "$pod" --subresource=status --type=merge \
        --as=system:node:nowhere --as-group=system:nodes --as-group=system:masters \
        -p '{"status":{"message":"well"}}' 2>&1)"
}

# All annotations that a copy would carry, and two that belong to its author.
copy() {
    asking 300 '{milligpu.io/allocation: "x", milligpu.io/visible-devices: "0", visible-devices.milligpu.io/app: "0",
        milligpu.io/signature: "s", required-plugins.noderesource.dev/pod: "[]", milligpu.io/gpu-model: "A100*", a/b: c}' "$pod-copy"
}

test_restores() {
    local annotations='{.metadata.annotations}'
    wait_for '{"a/b":"c","milligpu.io/gpu-model":"A100*"}' "$annotations" < <(copy)
    equal 'a copy loses what the first one got, and nothing else' '{"a/b":"c","milligpu.io/gpu-model":"A100*"}' \
        "$(copy | admitted "$annotations")"
    equal 'a pod that asks nothing keeps the plugins that it needs' '{"required-plugins.noderesource.dev/pod":"[]"}' \
        "$(asking 0 '{required-plugins.noderesource.dev/pod: "[]"}' "$pod-copy" | admitted "$annotations")"
    equal 'a copy goes on needing the agent' '{"required-plugins.noderesource.dev/pod":"[\"milligpu\"]"}' \
        "$(asking 300 '{required-plugins.noderesource.dev/pod: "[\"milligpu\"]", milligpu.io/signature: "s"}' "$pod-copy" |
            admitted "$annotations")"
    equal 'a pod without annotations passes' "$pod-copy" "$(asking 300 '{}' "$pod-copy" | admitted '{.metadata.name}')"
    contains 'what is there already stays refused' 'is written by milligpu' \
        "$(k -n default annotate pod "$pod" milligpu.io/visible-devices=7 --overwrite 2>&1)"
}

fresh() { # AMOUNT [ANNOTATIONS]
    asking "$1" "${2:-"{}"}" "$pod-fresh"
}

test_required_plugin() {
    local key=required-plugins.noderesource.dev annotations='{.metadata.annotations}'
    local needs="{\"$key/pod\":\"[\\\"milligpu\\\"]\"}"
    wait_for milligpu "$annotations" < <(fresh 300)
    equal 'an asking pod needs the agent from the beginning' "$needs" "$(fresh 300 | admitted "$annotations")"
    equal 'also one whose init container asks' "$needs" "$(fresh 300 |
        sed 's/containers:/initContainers:/; $a\  containers: [{name: plain, image: none}]' | admitted "$annotations")"
    equal 'and one whose author wrote otherwise' "$needs" \
        "$(fresh 300 "{$key/pod: '[\"other\"]'}" | admitted "$annotations")"
    equal 'a pod that names its node needs it too' "$needs" "$(fresh 300 | sed '/^spec:/a\  nodeName: nowhere' |
        k create --dry-run=server -f - -o "jsonpath=$annotations" --as=jane --as-group=system:masters \
            --as-group=system:nodes 2>&1)"
    equal 'a pod that asks 0 is not touched' '' "$(fresh 0 | admitted "$annotations")"
    equal 'nor is what it needs' "{\"$key/pod\":\"[]\"}" "$(fresh 0 "{$key/pod: '[]'}" | admitted "$annotations")"
    equal 'a copy needs the agent and nothing else' "$needs" "$(fresh 300 "{$key/pod: '[]', milligpu.io/allocation: x}" |
        admitted "$annotations")"
}

# The warnings, as an overlay for older versions has them with the word before-1.36.
warnings() { # [COMPONENT]
    local c
    mkdir -p "$work/warnings"
    {
        echo 'components:'
        for c in other-scheduler "$@"; do
            echo "  - $(realpath --relative-to="$work/warnings" "$components/$c")"
        done
    } >"$work/warnings/kustomization.yaml"
}

work=$(mktemp -d)
other=$work/warnings
installed='guard zero-touch scheduler-name toleration'
if ! grep -q ^mutatingadmissionpolicies \
    <<<"$(k api-resources --api-group=admissionregistration.k8s.io -o name 2>/dev/null)"; then
    installed=guard
fi
trap clean EXIT
for file in namespace serviceaccount rbac; do
    k apply -f "$top/manifests/base/$file.yaml" >/dev/null || exit 1
done
for c in $installed; do
    k apply -k "$components/$c" >/dev/null || exit 1
done

case $installed in
*zero-touch*)
    test_zero_touch
    test_scheduler_name
    test_toleration
    warnings
    test_other_scheduler false
    ;;
*)
    echo 'skip: what needs MutatingAdmissionPolicy v1, Kubernetes 1.36 and later'
    warnings before-1.36
    test_other_scheduler true
    ;;
esac
test_amounts
test_forged_annotations
test_bindings
test_requests
test_placement
case $installed in
*zero-touch*)
    installed="$installed restores"
    k apply -k "$components/restores" >/dev/null || exit 1
    test_restores
    installed="$installed required-plugin"
    k apply -k "$components/required-plugin" >/dev/null || exit 1
    test_required_plugin
    ;;
esac

echo "$count checks, $failed failed"
[ "$failed" -eq 0 ]
