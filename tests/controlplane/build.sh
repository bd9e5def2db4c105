#!/bin/sh
# build.sh [VERSION] - builds the programs of a real control plane into build/controlplane/VERSION/.
#
# These are etcd, kube-apiserver, kube-scheduler, kubelet and kubectl, from Go modules whose versions and
# checksums are committed next to this script. VERSION is KUBERNETES_VERSION by default, else 1.36.3.
# Programs that are up to date are not built again: the stamp beside a program is a hash of the module
# files, the compiler version and the flags that it was built with.
set -eu

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "build.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
version=${1:-${KUBERNETES_VERSION:-1.36.3}}
modules=$here/build/$version
out=$root/build/controlplane/$version

if [ ! -f "$modules/go.mod" ]; then
    there=$(ls "$here/build" | tr '\n' ' ')
    echo "build.sh: no modules for Kubernetes $version; there are: $there" >&2
    exit 2
fi
command -v go >/dev/null || { echo "build.sh: go is not installed" >&2; exit 2; }

export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS= GOWORK=off
minor=${version#*.}
minor=${minor%%.*}
at=k8s.io/component-base/version
flags="-s -w -X $at.gitVersion=v$version -X $at.gitMajor=${version%%.*} -X $at.gitMinor=$minor"
recipe=$({ cat "$modules/go.mod" "$modules/go.sum"; go version; echo "$flags"; } | sha256sum)
recipe=${recipe%% *}

mkdir -p "$out"
exec 9>"$out/.lock"
flock 9

build_one() {
    name=$1 package=$2
    if [ -x "$out/$name" ] && [ "$(cat "$out/.$name.stamp" 2>/dev/null)" = "$recipe" ]; then
        return 0
    fi
    start=$(date +%s)
    (cd "$modules" && go build -mod=readonly -trimpath -buildvcs=false -ldflags "$flags" \
        -o "$out/$name.new" "$package")
    mv "$out/$name.new" "$out/$name"
    echo "$recipe" >"$out/.$name.stamp"
    echo "built $name $version in $(($(date +%s) - start)) s"
}

build_one etcd go.etcd.io/etcd/server/v3
build_one kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build_one kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
build_one kubelet k8s.io/kubernetes/cmd/kubelet
build_one kubectl k8s.io/kubernetes/cmd/kubectl
