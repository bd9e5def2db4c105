#!/usr/bin/env bash
# image.sh PROGRAM - check what the Containerfile puts into the image, without a container engine: files and SBOM
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "image.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { echo "image.sh: name the program, such as build/release/bin/milligpud" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
program=$(readlink -f "$1")
name=$(basename "$program")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

check() { # SENTENCE COMMAND...
    if "${@:2}" >"$work/out" 2>&1; then
        echo "ok - $1"
    else
        echo "not ok - $1"
        sed 's/^/    /' "$work/out"
        failed=1
    fi
}

same() { # FILE FILE
    diff "$1" "$2"
}

list=$work/sbom.json
"$top/manifests/image/root.sh" "$program" "$work/root"
SOURCE_DATE_EPOCH=1000000000 "$top/manifests/image/sbom.sh" "$work/root" >"$list"
SOURCE_DATE_EPOCH=1000000000 "$top/manifests/image/sbom.sh" "$work/root" >"$work/again"
check 'the same root gives the same list' same "$list" "$work/again"
check 'the list is SPDX 2.3' jq -e '.spdxVersion == "SPDX-2.3" and .dataLicense == "CC0-1.0"
    and .creationInfo.created == "2001-09-09T01:46:40Z" and (.documentNamespace | startswith("https://"))' "$list"
check "$name has its licence" jq -e --arg name "$name" '.packages[0] | .name == $name
    and .licenseDeclared == "Apache-2.0" and .licenseConcluded == "Apache-2.0"' "$list"
check 'every package has a version, a source and a URL' jq -e --arg name "$name" '[.packages[] | select(.name != $name)] | length > 5
    and all(.versionInfo != "" and (.sourceInfo | test("^built from [^ ]+ [^ ]+$"))
    and (.externalRefs[0].referenceLocator | test("^pkg:deb/debian/[^@]+@[^?]+[?]arch=[a-z0-9]+&distro=debian-[0-9]+$")))' "$list"
check 'names of packages are unique and allowed' jq -e '[.packages[].SPDXID]
    | length == (unique | length) and all(test("^SPDXRef-[A-Za-z0-9.-]+$"))' "$list"
check "$name depends on each of them" jq -e --arg name "$name" '([.packages[].SPDXID] - ["SPDXRef-" + $name])
    == [.relationships[] | select(.relationshipType == "DEPENDS_ON") | .relatedSpdxElement]' "$list"
find "$work/root" -name '*.so*' -type f -printf '%f\n' | sort >"$work/there"
# The reverse: each library of the image belongs to a package in the list.
jq -r --arg name "$name" '.packages[] | select(.name != $name) | .name' "$list" | while read -r name; do
    dpkg-query -L "$name"
done | sed 's|.*/||' | sort -u >"$work/listed"
check 'no library is missing in it' bash -c 'missing=$(comm -23 "$1" "$2"); echo "$missing"; [ -z "$missing" ]' _ \
    "$work/there" "$work/listed"
check 'the zones of policies are there, and listed' jq -e --arg zone "$(head -c 4 "$work/root/usr/share/zoneinfo/Europe/Berlin")" \
    '$zone == "TZif" and any(.packages[]; .name == "tzdata")' "$list"
sum=$(sha256sum "$work/root/usr/bin/$name" | cut -d' ' -f1)
check 'the program is the one of the list' jq -e --arg sum "$sum" \
    '.packages[0].checksums[0].checksumValue == $sum' "$list"
commit=$(cmake -DSOURCE=/ -DVERSION=1 -DCOMMIT=0123456789abcdef0123 -DOUT="$work/version.h" \
    -P "$top/cmake/WriteVersion.cmake" && grep COMMIT "$work/version.h")
check 'a build without history is told its commit' test "$commit" = '#define MILLIGPU_COMMIT "0123456789ab"'
check 'the base is named by its digest' grep -Eq '^FROM debian:bookworm-[0-9]{8}-slim@sha256:[0-9a-f]{64} AS build$' \
    "$top/Containerfile"
# Only what is copied from the tree, not from an earlier stage; the last word is the target.
sed -n 's/^COPY \([^-]\)/\1/p' "$top/Containerfile" | awk '{ for (i = 1; i < NF; i++) print "!" $i }' | sort >"$work/copied"
sed -n '/^!/p' "$top/.dockerignore" | sort >"$work/context"
check '.dockerignore lets in what the Containerfile copies' same "$work/copied" "$work/context"
if [ "$(id -u)" = 0 ]; then
    check 'the program finds its libraries there' chroot "$work/root" "/usr/bin/$name" --version
    check 'it is what was built' test "$(chroot "$work/root" "/usr/bin/$name" --version)" = "$("$program" --version)"
else
    echo 'skipped - the program in that root: chroot is for root'
fi
exit $failed
