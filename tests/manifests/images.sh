#!/usr/bin/env bash
# images.sh TREE [--sources] - build the images with buildah from a built tree, such as build/release, and look into them
#
# It runs the commands that the Containerfile and manifests/README.md document, with buildah in the place of podman: those
# that take a built tree, and with --sources also those that compile. The base image of the latter is made by debootstrap
# from the package archive of this machine, since no registry is asked; build/images keeps it.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "images.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 1 ] || [ "$#:${2:-}" = 2:--sources ] ||
    { echo "images.sh: name a built tree, and --sources or nothing; see --help" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(readlink -f "$1")
[ "$(id -u)" = 0 ] || { echo 'skipped: files of an image belong to other users, so this needs root'; exit 77; }
for program in buildah jq; do
    command -v $program >/dev/null || { echo "skipped: no $program here: scripts/install-deps.sh --images"; exit 77; }
done

kept=$top/build/images
mkdir -p "$kept"
work=$(mktemp -d "$kept/work-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
. "$top/tests/support/check.sh"

# A store of its own, without mounts, and containers that share this machine's namespaces.
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/store" "$work/run" >"$work/storage.conf"
export CONTAINERS_STORAGE_CONF=$work/storage.conf BUILDAH_ISOLATION=chroot

# Everything that a user sees of an image.
look_into() { # IMAGE PROGRAM...
    local image=$1 container root config program
    container=$(buildah from --pull-never "$image")
    root=$(buildah mount "$container")
    config=$(buildah inspect --type image "$image" | jq -c .OCIv1.config)
    check "$image starts $2" jq -e --arg program "/usr/bin/$2" '.Entrypoint == [$program] and .Env == ["PATH=/usr/bin"]' <<<"$config"
    check "$image has no other program" test "$(cd "$root" && find . -type f -perm /111 ! -name '*.so*' | sort)" = \
        "$(printf './usr/bin/%s\n' "${@:2}" | sort)"
    check "$image has no file that makes root of its user" test -z "$(find "$root" -perm /6000)"
    check "$image lists its packages" jq -e --arg image "$2" '.spdxVersion == "SPDX-2.3" and .packages[0].name == $image' \
        "$root/usr/share/milligpu/sbom.spdx.json"
    check "$image is smaller than 32 MB" test "$(du -s --apparent-size -B 1000000 "$root" | cut -f1)" -lt 32
    for program in "${@:2}"; do
        # kubectl exec gives the name without its folder, too.
        check "$program runs in $image" buildah run "$container" -- "$program" --version
        grep -q "^$program [0-9]" "$work/out" || { echo "not ok - it is $(cat "$work/out")"; failed=1; }
    done
    if [ "$2" = milligpud ]; then
        check "$image does not run as root" jq -e '.User == "65532:65532"' <<<"$config"
        check 'its user owns the folder of the ledger' test "$(stat -c %u:%g "$root/var/lib/milligpu")" = 65532:65532
    fi
    check "$image says what it is built from" jq -e --arg commit "$(revision "$root/usr/bin/$2")" \
        '.Labels["org.opencontainers.image.revision"] | startswith($commit)' <<<"$config"
    echo "$image: $(du -s --apparent-size -B 100000 "$root" | cut -f1 | sed 's/.$/.&/') MB"
    buildah rm "$container" >/dev/null
}

revision() { # PROGRAM
    "$1" --version | sed 's/.*(\([0-9a-f]*\|unknown\)[^0-9a-f].*/\1/'
}

look_into_both() {
    look_into milligpud:0.1.0 milligpud milligpuctl
    look_into milligpu-node:0.1.0 milligpu-node
}

build_images() { # ARGUMENT...
    "$top/scripts/build-images.sh" --tool buildah "$@"
}

# As podman would do; in this machine's store there is another base than the Containerfile's.
mkdir "$work/bin"
cat >"$work/bin/podman" <<'EOF'
#!/bin/sh
[ "$1" = build ] || exit 2
shift
exec buildah build --pull-never --build-arg BASE=localhost/milligpu-base --build-arg ARCHIVE= "$@"
EOF
chmod +x "$work/bin/podman"

documented() { # the commands in the two places, each once
    sed -n 's/^\(#\|\) *\(\(podman build\|manifests\/image\/roots.sh\) .*\)$/\2/p' "$top/Containerfile" "$top/manifests/README.md" | awk '!seen[$0]++'
}

documented | grep -e --build-context -e roots.sh >"$work/of-a-tree"
documented | grep -v -e --build-context -e roots.sh >"$work/of-sources"

run_documented() { # FILE
    local line
    while read -r line; do
        check "documented: $line" env PATH="$work/bin:$PATH" bash -c "cd '$top' && $line" </dev/null
    done <"$1"
}

echo '# from a built tree'
check 'both images are built' build_images --from "$tree" --export "$work/one"
check 'both images are built again' build_images --from "$tree" --export "$work/two"
for image in milligpud milligpu-node; do
    check "$image is the same image both times" cmp "$work/one/$image.tar" "$work/two/$image.tar"
done
look_into_both
check 'there are commands for a built tree' test "$(wc -l <"$work/of-a-tree")" -ge 2
if [ "$tree" = "$top/build/release" ]; then
    rm -rf "$kept/roots"
    run_documented "$work/of-a-tree"
    rm -rf "$kept/roots"
fi
[ "${2:-}" = --sources ] || exit $failed

echo '# from sources'
import_base() {
    printf 'FROM scratch\nADD base.tar /\n' | buildah build -f - --ignorefile /dev/null -t localhost/milligpu-base "$work/context"
}

check 'a base image is made' "$top/tests/packaging/base.sh" "$kept/base.tar"
mkdir "$work/context"
ln "$kept/base.tar" "$work/context/"
check 'a base image is imported' import_base
buildah rmi milligpud:0.1.0 milligpu-node:0.1.0 >/dev/null
check 'there are commands for both images' test "$(wc -l <"$work/of-sources")" = 2
run_documented "$work/of-sources"
look_into_both

program_of() { # NAME: the digest of the agent in an image
    local container
    container=$(buildah from --pull-never "$1")
    sha256sum <"$(buildah mount "$container")/usr/bin/milligpu-node"
    buildah rm "$container" >/dev/null
}
check 'build-images.sh compiles, too' build_images --base localhost/milligpu-base --archive '' --version again milligpu-node
check 'the same sources give the same program' test "$(program_of milligpu-node:again)" = "$(program_of milligpu-node:0.1.0)"
exit $failed
