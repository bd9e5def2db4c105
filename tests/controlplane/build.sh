#!/bin/sh
# build.sh [VERSION] - builds the programs of a real control plane into build/controlplane/VERSION/.
#
# These are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl, from Go modules whose versions and
# checksums are committed next to this script. VERSION is KUBERNETES_VERSION by default, else the one in the file
# tests/controlplane/VERSION.
# containerd, its shim, ctr, and an NRI plugin, a device plugin and a CRI client for the tests come into
# build/controlplane/containerd-2.3.7/.
# Helm, for the chart, comes into build/controlplane/helm-3.22.0/.
# The CRDs of cert-manager and of the frameworks in examples/, which are files of Go modules, come into
# build/controlplane/crds/.
# CONTAINERD_VERSION names another containerd that is built, too: 1.7.29, 2.1.9 or 2.2.9.
# Programs that are up to date are not built again: the stamp beside a program is a hash of the module
# files, the compiler version and the flags that it was built with.
set -eu

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "build.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
version=${1:-${KUBERNETES_VERSION:-$(cat "$here/VERSION")}}

if [ ! -f "$here/build/$version/tools.go" ]; then
    there=$(cd "$here/build" && ls -d [0-9]* | tr '\n' ' ')
    echo "build.sh: no modules for Kubernetes $version; there are: $there" >&2
    exit 2
fi
if [ ! -f "$here/build/containerd-${CONTAINERD_VERSION:-2.3.7}/tools.go" ]; then
    there=$(cd "$here/build" && ls -d containerd-* | tr '\n' ' ')
    echo "build.sh: no modules for containerd $CONTAINERD_VERSION; there are: $there" >&2
    exit 2
fi
command -v go >/dev/null || { echo "build.sh: go is not installed" >&2; exit 2; }

export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS= GOWORK=off
minor=${version#*.}
minor=${minor%%.*}
at=k8s.io/component-base/version

# the programs that follow come from this folder of modules, with these flags, into this folder
from() { # MODULES OUT LDFLAGS
    modules=$1 out=$2 flags=$3
    recipe=$({ cat "$modules/go.mod" "$modules/go.sum"; go version; echo "$flags"; } | sha256sum)
    recipe=${recipe%% *}
    mkdir -p "$out"
    exec 9>"$out/.lock"
    flock 9
}

build_one() { # NAME PACKAGE [TAGS]
    name=$1 package=$2 tags=${3:-}
    stamp=$recipe${tags:+ $tags}$(own_source "$package")
    if [ -x "$out/$name" ] && [ "$(cat "$out/.$name.stamp" 2>/dev/null)" = "$stamp" ]; then
        return 0
    fi
    start=$(date +%s)
    (cd "$modules" && go build -mod=readonly -trimpath -buildvcs=false -ldflags "$flags" \
        -tags "$tags" -o "$out/$name.new" "$package")
    mv "$out/$name.new" "$out/$name"
    echo "$stamp" >"$out/.$name.stamp"
    echo "built $name in $(($(date +%s) - start)) s"
}

# a program whose source is here, and not in a module, is built again when that changes
own_source() { # PACKAGE
    case $1 in
    .) echo " $(cat "$modules"/*.go | sha256sum | cut -d ' ' -f 1)" ;;
    esac
}

from "$here/build/$version" "$root/build/controlplane/$version" \
    "-s -w -X $at.gitVersion=v$version -X $at.gitMajor=${version%%.*} -X $at.gitMinor=$minor"
build_one etcd go.etcd.io/etcd/server/v3
build_one kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build_one kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
build_one kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
build_one kubelet k8s.io/kubernetes/cmd/kubelet
build_one kubectl k8s.io/kubernetes/cmd/kubectl

containerd() { # VERSION
    case $1 in
    1.*) module=github.com/containerd/containerd ;;
    *) module=github.com/containerd/containerd/v2 ;;
    esac
    from "$here/build/containerd-$1" "$root/build/controlplane/containerd-$1" "-s -w -X $module/version.Version=$1"
    build_one containerd $module/cmd/containerd urfave_cli_no_docs
    build_one containerd-shim-runc-v2 $module/cmd/containerd-shim-runc-v2 urfave_cli_no_docs,no_grpc
    build_one ctr $module/cmd/ctr urfave_cli_no_docs
}

containerd 2.3.7
if [ "${CONTAINERD_VERSION:-2.3.7}" != 2.3.7 ]; then
    containerd "$CONTAINERD_VERSION"
fi

from "$here/build/nri-plugin" "$root/build/controlplane/containerd-2.3.7" "-s -w"
build_one nri-plugin .

from "$here/build/device-plugin" "$root/build/controlplane/containerd-2.3.7" "-s -w"
build_one device-plugin .

from "$here/build/cri-client" "$root/build/controlplane/containerd-2.3.7" "-s -w"
build_one cri-client .

# without these two, `helm template` and `helm lint` take the cluster for a Kubernetes 1.20
helm=helm.sh/helm/v3
from "$here/build/helm" "$root/build/controlplane/helm-3.22.0" "-s -w -X $helm/internal/version.version=v3.22.0
    -X $helm/pkg/chartutil.k8sVersionMajor=1 -X $helm/pkg/chartutil.k8sVersionMinor=37"
build_one helm $helm/cmd/helm

# Each checksum must be in go.sum already, since go adds those that are missing.
crds() {
    from "$here/build/crds" "$root/build/controlplane/crds" ""
    stamp="$recipe $(sha256sum <"$modules/files")"
    if [ "$(cat "$out/.stamp" 2>/dev/null)" = "$stamp" ]; then
        return 0
    fi
    rm -f "$out"/*.yaml
    while read -r module file; do
        grep -q "^${module%@*} ${module#*@} h1:" "$modules/go.sum" || {
            echo "build.sh: go.sum has no checksum of $module" >&2
            exit 2
        }
        folder=$(cd "$modules" && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
        cp "${folder:?could not be had}/$file" "$out/"
    done <"$modules/files"
    chmod u+w "$out"/*.yaml
    echo "$stamp" >"$out/.stamp"
    echo "fetched $(ls "$out" | wc -l) CRDs"
}
crds
