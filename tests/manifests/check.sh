#!/usr/bin/env bash
# check.sh - check the manifests without a cluster: they build, grant no right too many, and agree with the program
#
# kubectl builds the kustomizations: $KUBECTL, otherwise that of tests/controlplane, otherwise the one in PATH. Without
# kubectl, the files are checked all the same; the rest is skipped, and the output says why. promtool fires the alerts:
# $PROMTOOL, otherwise the one in PATH; without it they are only read, which is a failure with CI=true.
# So it is with the chart: its templates are rendered by $HELM, otherwise by that of tests/controlplane, otherwise by the one
# in PATH.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
?*) echo "check.sh: unknown argument $1; it takes none" >&2; exit 2 ;;
esac
top=$(cd "$(dirname "$0")/../.." && pwd)

for python in python3 /usr/bin/python3; do
    if "$python" -c 'import yaml' 2>/dev/null; then
        break
    fi
    python=
done
if [ -z "$python" ]; then
    echo "skipped: no Python with its yaml module here (Debian: python3-yaml)"
    exit 77
fi

kubectl=${KUBECTL:-}
for candidate in "$top"/build/controlplane/*/kubectl "$(command -v kubectl || true)"; do
    if [ -z "$kubectl" ] && [ -x "$candidate" ] && "$candidate" kustomize --help >/dev/null 2>&1; then
        kubectl=$candidate
    fi
done
promtool=${PROMTOOL:-$(command -v promtool || true)}
helm=${HELM:-}
for candidate in "$top"/build/controlplane/helm-*/helm "$(command -v helm || true)"; do
    if [ -z "$helm" ] && [ -x "$candidate" ] && "$candidate" version >/dev/null 2>&1; then
        helm=$candidate
    fi
done

rc=0
"$python" -B "$top/tests/manifests/check.py" "$top" "$kubectl" || rc=1
"$python" -B "$top/tests/manifests/alerts.py" "$top" "$promtool" || rc=1
"$python" -B "$top/tests/manifests/dashboards.py" "$top" "$kubectl" || rc=1
if [ -n "$kubectl" ]; then
    "$python" -B "$top/tests/manifests/chart.py" "$top" "$kubectl" "$helm" || rc=1
fi
exit $rc
