#!/usr/bin/env bash
# image.sh BIN IMAGE - check what the Containerfile puts into an image, without a container engine: files and SBOM
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "image.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 2 ] || { echo "image.sh: name a folder of programs and an image, such as build/release/bin milligpud" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(readlink -f "$1")
name=$2
case $name in
milligpud) programs='["milligpud","milligpuctl"]' ;;
*) programs="[\"$name\"]" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$top/tests/support/check.sh"

same() { # FILE FILE
    diff "$1" "$2"
}

export SOURCE_DATE_EPOCH=1000000000
"$top/manifests/image/roots.sh" "$bin" "$work" "$name"
"$top/manifests/image/roots.sh" "$bin" "$work/again" "$name"
root=$work/$name
list=$root/usr/share/milligpu/sbom.spdx.json

described() { # FOLDER: names, modes, owners, times and contents
    (cd "$1" && find . -printf '%p %y %m %U:%G %T@ %l\n' | sort && find . -type f -exec sha256sum {} + | sort)
}
described "$root" >"$work/one"
described "$work/again/$name" >"$work/two"
check 'the same programs give the same files, of the same time' same "$work/one" "$work/two"
check 'the programs are these and no other' test "$(find "$root/usr/bin" -printf '%f\n' | sed 1d | sort | jq -Rsc 'split("\n")[:-1]')" = \
    "$(jq -c 'sort' <<<"$programs")"
check 'the list is SPDX 2.3' jq -e '.spdxVersion == "SPDX-2.3" and .dataLicense == "CC0-1.0"
    and .creationInfo.created == "2001-09-09T01:46:40Z" and (.documentNamespace | startswith("https://"))' "$list"
check 'the programs have their licence' jq -e --argjson programs "$programs" '.packages[:($programs | length)]
    | map(.name) == $programs and all(.licenseDeclared == "Apache-2.0" and .licenseConcluded == "Apache-2.0")' "$list"
check 'every package has a version, a source and a URL' jq -e --argjson programs "$programs" '.packages[($programs | length):]
    | length > 5 and all(.versionInfo != "" and (.sourceInfo | test("^built from [^ ]+ [^ ]+$"))
    and (.externalRefs[0].referenceLocator | test("^pkg:deb/debian/[^@]+@[^?]+[?]arch=[a-z0-9]+&distro=debian-[0-9]+$")))' "$list"
check 'names of packages are unique and allowed' jq -e '[.packages[].SPDXID]
    | length == (unique | length) and all(test("^SPDXRef-[A-Za-z0-9.-]+$"))' "$list"
check 'the list describes the programs' jq -e --argjson programs "$programs" '$programs
    == [.relationships[] | select(.relationshipType == "DESCRIBES") | .relatedSpdxElement | ltrimstr("SPDXRef-")]' "$list"
check 'each package belongs to a program' jq -e --argjson programs "$programs" '[.packages[($programs | length):][].SPDXID] | sort
    == ([$list[0].relationships[] | select(.relationshipType == "DEPENDS_ON") | .relatedSpdxElement] | unique)' \
    --slurpfile list "$list" "$list"
check 'a program depends on what it is linked to' jq -e '[.relationships[] | select(.relationshipType == "DEPENDS_ON")
    | select(.relatedSpdxElement == "SPDXRef-libmicrohttpd12" or .relatedSpdxElement == "SPDXRef-libsmartcols1")
    | .spdxElementId + " " + .relatedSpdxElement | gsub("SPDXRef-"; "")] | sort
    == (if $name == "milligpud" then ["milligpuctl libsmartcols1", "milligpud libmicrohttpd12"] else . end)' --arg name "$name" "$list"
find "$root" -name '*.so*' -type f -printf '%f\n' | sort >"$work/there"
# The reverse: each library of the image belongs to a package in the list.
jq -r --argjson programs "$programs" '.packages[($programs | length):][].name' "$list" | while read -r package; do
    dpkg-query -L "$package"
done | sed 's|.*/||' | sort -u >"$work/listed"
check 'no library is missing in it' bash -c 'missing=$(comm -23 "$1" "$2"); echo "$missing"; [ -z "$missing" ]' _ \
    "$work/there" "$work/listed"
check 'the zones of policies are there, and listed' jq -e --arg zone "$(head -c 4 "$root/usr/share/zoneinfo/Europe/Berlin")" \
    '$zone == "TZif" and any(.packages[]; .name == "tzdata")' "$list"
for program in $(jq -r '.[]' <<<"$programs"); do
    sum=$(sha256sum "$root/usr/bin/$program" | cut -d' ' -f1)
    check "$program is the one of the list" jq -e --arg name "$program" --arg sum "$sum" \
        'any(.packages[]; .name == $name and .checksums[0].checksumValue == $sum)' "$list"
done
commit=$(cmake -DSOURCE=/ -DVERSION=1 -DCOMMIT=0123456789abcdef0123 -DOUT="$work/version.h" \
    -P "$top/cmake/WriteVersion.cmake" && grep COMMIT "$work/version.h")
check 'a build without history is told its commit' test "$commit" = '#define MILLIGPU_COMMIT "0123456789ab"'
check 'the base is named by its digest' grep -Eq '^ARG BASE=debian:bookworm-[0-9]{8}-slim@sha256:[0-9a-f]{64}$' \
    "$top/Containerfile"
# Only what is copied from the tree, not from an earlier stage; the last word is the target.
sed -n 's/^COPY \([^-]\)/\1/p' "$top/Containerfile" | awk '{ for (i = 1; i < NF; i++) print "!" $i }' | sort >"$work/copied"
sed -n '/^!/p' "$top/.dockerignore" | sort >"$work/context"
check '.dockerignore lets in what the Containerfile copies' same "$work/copied" "$work/context"
if [ "$(id -u)" = 0 ]; then
    for program in $(jq -r '.[]' <<<"$programs"); do
        check "$program finds its libraries there, and is what was built" test \
            "$(chroot "$root" "/usr/bin/$program" --version)" = "$("$bin/$program" --version)"
    done
else
    echo 'skipped - the programs in that root: chroot is for root'
fi
exit $failed
