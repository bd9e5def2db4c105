#!/usr/bin/env bash
# build-debs.sh TREE FOLDER - build the Debian packages of a built tree, such as build/release, into FOLDER
#
# They are milligpud, milligpuctl and milligpu-node, for the Debian of this machine. Files have the time of the commit
# (SOURCE_DATE_EPOCH sets another), so the same programs give the same packages each time.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "build-debs.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 2 ] || { echo "build-debs.sh: name a built tree and a folder; see --help" >&2; exit 2; }
top=$(cd "$(dirname "$0")/.." && pwd)
tree=$(readlink -f "$1")
for program in cpack dpkg-shlibdeps file; do
    command -v $program >/dev/null || { echo "build-debs.sh: no $program here: scripts/install-deps.sh --images" >&2; exit 1; }
done
mkdir -p "$2"
folder=$(readlink -f "$2")
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || true)}
[ -z "$epoch" ] || export SOURCE_DATE_EPOCH=$epoch

umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack -G DEB --config "$tree/CPackConfig.cmake" -B "$work" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
for file in "$work"/*.deb; do
    mv "$file" "$folder/"
    echo "built $folder/${file##*/}"
done
