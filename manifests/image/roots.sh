#!/bin/sh
# roots.sh BIN FOLDER [IMAGE...] - makes FOLDER/IMAGE, the file system of each image, from the programs in BIN
#
# The images are milligpud and milligpu-node. milligpuctl is in milligpud's, for kubectl exec and for Jobs on the
# ledger's volume. Each has the list of its packages in /usr/share/milligpu/sbom.spdx.json.
set -eu

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "roots.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -ge 2 ] || { echo "roots.sh: name the folder of the programs and another one; see --help" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
folder=$2
shift 2
[ $# -gt 0 ] || set -- milligpud milligpu-node

mkdir -p "$folder"
for image in "$@"; do
    root=${folder%/}/$image
    case $image in
    milligpud) "$here/root.sh" "$root" "$bin/milligpud" "$bin/milligpuctl" ;;
    milligpu-node) "$here/root.sh" "$root" "$bin/milligpu-node" ;;
    *) echo "roots.sh: no image is called $image; there are: milligpud milligpu-node" >&2; exit 2 ;;
    esac
    # Made before it is part of what it lists.
    "$here/sbom.sh" "$root" "$image" >"$root.json"
    mkdir "$root/usr/share/milligpu"
    mv "$root.json" "$root/usr/share/milligpu/sbom.spdx.json"
    [ -z "${SOURCE_DATE_EPOCH:-}" ] || find "$root/usr/share" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
done
