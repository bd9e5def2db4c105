#!/bin/sh
# sbom.sh ROOT - prints the packages in the image's file system as SPDX 2.3 JSON
#
# Files in /usr/bin are milligpu's. For each library and for the time zones, dpkg names the package, its version and its
# source. The same root gives the same bytes: the time is SOURCE_DATE_EPOCH, else the program's modification time.
set -eu

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "sbom.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { echo "sbom.sh: name the root of the image; see --help" >&2; exit 2; }
root=$1
program=$(find "$root/usr/bin" -type f)
ours=$(basename "$program")
version=$("$program" --version)    # milligpud 0.1.0 (commit)
number=$(printf '%s\n' "$version" | cut -d' ' -f2)
commit=$(printf '%s\n' "$version" | sed 's/.*[( ]\([0-9a-f]\{12\}\|unknown\)[^0-9a-f]*$/\1/')
sum=$(sha256sum "$program" | cut -d' ' -f1)
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$program")}" +%Y-%m-%dT%H:%M:%SZ)

# The package of a file, whose folder dpkg may know by its older name (/lib for /usr/lib).
package_of() {
    dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null || dpkg-query -S "/usr$1"
}

packages=$(
    find "$root" -type f \( -name '*.so' -o -name '*.so.*' -o -path '*/zoneinfo/Etc/UTC' \) | sed "s|^$root||" | sort | while read -r file; do
        # A library is often a link to the file that a package brings.
        package_of "$file" || package_of "$(readlink -f "$file")" || { echo "sbom.sh: $file belongs to no package" >&2; exit 1; }
    done | cut -d: -f1 | sort -u
) || exit 1
[ -n "$packages" ] || { echo "sbom.sh: no library in $root" >&2; exit 1; }

distribution=$(. /etc/os-release && echo "$ID-$VERSION_ID")
id_of() {
    printf '%s' "$1" | tr + .
}

encoded() { # as a package URL has it
    printf '%s' "$1" | sed 's/%/%25/g; s/+/%2B/g; s/:/%3A/g; s/~/%7E/g'
}

package() { # NAME VERSION SUPPLIER LICENSE MORE...
    cat <<EOF
    {
      "SPDXID": "SPDXRef-$(id_of "$1")",
      "name": "$1",
      "versionInfo": "$2",
      "supplier": "Organization: $3",
      "downloadLocation": "NOASSERTION",
      "filesAnalyzed": false,
      "licenseConcluded": "$4",
      "licenseDeclared": "$4",
      "copyrightText": "NOASSERTION",
EOF
    shift 4
    printf '      %s\n' "$@"
    printf '    }'
}

cat <<EOF
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "$ours-$number",
  "documentNamespace": "https://milligpu.io/spdx/$ours-$number-$sum",
  "creationInfo": {"created": "$created", "creators": ["Tool: milligpu-sbom.sh"]},
  "packages": [
EOF
package "$ours" "$number" milligpu Apache-2.0 "\"sourceInfo\": \"commit $commit\"," '"primaryPackagePurpose": "APPLICATION",' \
    "\"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": \"$sum\"}]"
for name in $packages; do
    # shellcheck disable=SC2016 # dpkg's own fields
    fields=$(dpkg-query -W -f '${Version} ${Architecture} ${source:Package} ${source:Version}\n' "$name" | head -n 1)
    # shellcheck disable=SC2086 # words
    set -- $fields
    printf ',\n'
    package "$name" "$1" Debian NOASSERTION "\"sourceInfo\": \"built from $3 $4\"," \
        '"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",' \
        "  \"referenceLocator\": \"pkg:deb/debian/$(encoded "$name")@$(encoded "$1")?arch=$2&distro=$distribution\"}]"
done
printf '\n  ],\n  "relationships": [\n'
printf '    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-%s"}' "$ours"
for name in $packages; do
    printf ',\n    {"spdxElementId": "SPDXRef-%s", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": "SPDXRef-%s"}' "$ours" "$(id_of "$name")"
done
printf '\n  ]\n}\n'
