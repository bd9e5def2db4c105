#!/usr/bin/env bash
# build-images.sh [OPTION...] [IMAGE...] - build the images milligpud and milligpu-node with podman, buildah or docker
#
#   --from TREE       take the programs of a built tree, such as build/release, and the libraries of this machine,
#                     instead of compiling in the base image; needs root
#   --version V       the tag (default: the version in CMakeLists.txt)
#   --prefix PREFIX   what stands before the name, such as registry.example.com/
#   --export FOLDER   also write FOLDER/IMAGE.tar, which docker load, podman load and ctr images import read
#   --format FORMAT   of that file: docker (the default), which older dockers read, too, or oci (not with docker)
#   --base IMAGE      another base image than the Containerfile's, to compile in
#   --archive URL     a mirror of snapshot.debian.org/archive; empty: the base image's own sources
#   --tool NAME       podman, buildah or docker (default: the first of them that is here)
#
# Files have the time of the commit (SOURCE_DATE_EPOCH sets another), so podman and buildah make the same image of the
# same programs and libraries each time. With docker, the layers have the time of the build.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

from= version= prefix= export= tool= format=docker
arguments=() # of the tool
images=()

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
    --from | --version | --prefix | --export | --format | --base | --archive | --tool)
        [ $# -gt 1 ] || { echo "build-images.sh: $1 needs a value; see --help" >&2; exit 2; }
        case $1 in
        --from) from=$2 ;;
        --version) version=$2 ;;
        --prefix) prefix=$2 ;;
        --export) export=$2 ;;
        --format) format=$2 ;;
        --base) arguments+=(--build-arg "BASE=$2") ;;
        --archive) arguments+=(--build-arg "ARCHIVE=$2") ;;
        --tool) tool=$2 ;;
        esac
        shift
        ;;
    milligpud | milligpu-node) images+=("$1") ;;
    -*) echo "build-images.sh: unknown option $1; see --help" >&2; exit 2 ;;
    *) echo "build-images.sh: no image is called $1; there are: milligpud milligpu-node" >&2; exit 2 ;;
    esac
    shift
done
[ ${#images[@]} -gt 0 ] || images=(milligpud milligpu-node)
[ -n "$version" ] || version=$(sed -n 's/^project(milligpu VERSION \([0-9.]*\).*/\1/p' "$top/CMakeLists.txt")
for name in podman buildah docker; do
    [ -n "$tool" ] || ! command -v "$name" >/dev/null || tool=$name
done
case $tool in
podman | buildah | docker) ;;
'') echo "build-images.sh: neither podman nor buildah nor docker is installed" >&2; exit 1 ;;
*) echo "build-images.sh: no tool is called $tool; there are: podman buildah docker" >&2; exit 2 ;;
esac

case $format:$tool in
oci:docker) echo "build-images.sh: docker writes no OCI archive: use podman or buildah" >&2; exit 2 ;;
docker:* | oci:*) ;;
*) echo "build-images.sh: no format is called $format; there are: docker oci" >&2; exit 2 ;;
esac

epoch=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || true)}
[ -z "$epoch" ] || export SOURCE_DATE_EPOCH=$epoch

# A replacement for the stage "build" of the Containerfile.
if [ -n "$from" ]; then
    [ "$(id -u)" = 0 ] || { echo "build-images.sh: --from needs root, since a folder of the image is another user's" >&2; exit 1; }
    roots=$(mktemp -d)
    trap 'rm -rf "$roots"' EXIT
    "$top/manifests/image/roots.sh" "$from/bin" "$roots" "${images[@]}"
    commit=$("$from/bin/${images[0]}" --version | sed 's/.*(\(.*\)).*/\1/')
    arguments+=(--build-context "build=$roots")
else
    commit=$(git -C "$top" rev-parse HEAD 2>/dev/null || echo unknown)
    [ -z "$epoch" ] || arguments+=(--build-arg "SOURCE_DATE_EPOCH=$epoch")
fi
[ "$tool" = docker ] || [ -z "$epoch" ] || arguments+=(--timestamp "$epoch")

save() { # NAME FILE
    local layout
    rm -f "$2"
    if [ "$tool" = docker ]; then
        docker save -o "$2" "$1"
    elif [ "$format" = docker ]; then
        "$tool" push --quiet "$1" "docker-archive:$2:$1"
    else
        # Not oci-archive, which writes the time of the export.
        layout=$(mktemp -d)
        "$tool" push --quiet "$1" "oci:$layout:$1" || { rm -rf "$layout"; return 1; }
        tar -C "$layout" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
            --mtime="@${epoch:-0}" -cf "$2" oci-layout index.json blobs || { rm -rf "$layout"; return 1; }
        rm -rf "$layout"
    fi
}

for image in "${images[@]}"; do
    name=$prefix$image:$version
    target=()
    [ "$image" = milligpud ] || target=(--target node)
    "$tool" build -f "$top/Containerfile" --build-arg "COMMIT=$commit" "${target[@]}" "${arguments[@]}" -t "$name" "$top"
    if [ -n "$export" ]; then
        mkdir -p "$export"
        save "$name" "$export/$image.tar"
    fi
    echo "built $name"
done
