#!/usr/bin/env bash
# apply.sh - try the manifests on a real kube-apiserver: kubectl apply --dry-run=server of every overlay
#
#   tests/manifests/apply.sh KUBECONFIG        (KUBECTL=kubectl)
#
# For a test cluster: only the namespace milligpu-system is stored. Kinds that the cluster lacks (those of the
# Prometheus operator; below Kubernetes 1.36 the mutating policies) are named and left out. The Service of overlays (b)
# and (c) needs a cluster whose Service range contains 10.96.0.210. A warning, such as one about pod security, fails.
set -uo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "apply.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
if [ $# -ne 1 ] || [ ! -r "$1" ]; then
    echo "apply.sh: name a readable kubeconfig of a test cluster: apply.sh KUBECONFIG" >&2
    exit 2
fi
export KUBECONFIG=$1
kubectl=${KUBECTL:-kubectl}
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
components=(advertise guard dashboards backup)

has() { # GROUP KIND-IN-PLURAL
    grep -q "^$2" <<<"$("$kubectl" api-resources --api-group="$1" -o name 2>/dev/null)"
}

apply() { # NAME FOLDER
    local said
    if said=$("$kubectl" apply --dry-run=server -k "$2" 2>&1) && ! grep -q Warning <<<"$said"; then
        echo "ok - $1: $(wc -l <<<"$said") objects"
    else
        echo "not ok - $1"
        grep -v 'dry run' <<<"$said"
        failed=$((failed + 1))
    fi
}

# Submits a pod of the StatefulSet itself, so that admission judges what the controller would create.
admit_pod() { # NAME FOLDER
    local said
    if said=$("$kubectl" kustomize "$2" | "$kubectl" create --dry-run=client -f - -o json 2>/dev/null |
        jq 'select(.kind == "StatefulSet") | {apiVersion: "v1", kind: "Pod",
            metadata: (.spec.template.metadata + {name: "milligpu-0", namespace: "milligpu-system"}),
            spec: (.spec.template.spec + {priorityClassName: "", volumes: (.spec.template.spec.volumes
                + [{name: "ledger", emptyDir: {}}])})}' |
        "$kubectl" create --dry-run=server -f - 2>&1) && ! grep -q Warning <<<"$said"; then
        echo "ok - $1: its pod is admitted to a restricted namespace"
    else
        printf 'not ok - %s: its pod\n%s\n' "$1" "$said"
        failed=$((failed + 1))
    fi
}

with_components() { # OVERLAY COMPONENT...
    local folder=$work/$1 c
    mkdir -p "$folder"
    {
        echo 'apiVersion: kustomize.config.k8s.io/v1beta1'
        echo 'kind: Kustomization'
        echo "resources: [$(realpath --relative-to="$folder" "$top/manifests/overlays/$1")]"
        echo 'components:'
        for c in "${@:2}"; do
            echo "  - $(realpath --relative-to="$folder" "$top/manifests/components/$c")"
        done
    } >"$folder/kustomization.yaml"
    echo "$folder"
}

if has admissionregistration.k8s.io mutatingadmissionpolicies; then
    components+=(zero-touch restores required-plugin)
    last=
else
    echo 'skip - what needs MutatingAdmissionPolicy (Kubernetes 1.36)'
    last=before-1.36
fi
if has monitoring.coreos.com prometheusrules; then
    components+=(alerts node-metrics)
else
    echo 'skip - alerts, node-metrics: no PrometheusRule here (the Prometheus operator); check.sh has read them'
fi

if has cert-manager.io certificates; then
    components+=(cert-manager)
else
    echo 'skip - cert-manager: no Certificate here; check.sh has read it'
fi

"$kubectl" apply -f "$top/manifests/base/namespace.yaml" >/dev/null || exit 1
apply base "$top/manifests/base"
admit_pod base "$top/manifests/base"
for overlay in second-scheduler second-scheduler-before-1.36 default-scheduler kubeadm; do
    if [ -z "$last" ] || [ "$overlay" = second-scheduler-before-1.36 ]; then
        apply "$overlay" "$top/manifests/overlays/$overlay"
    fi
    folder=$(with_components "$overlay" "${components[@]}" $last)
    apply "$overlay with ${components[*]} $last" "$folder"
    admit_pod "$overlay" "$folder"
done
[ "$failed" -eq 0 ]
