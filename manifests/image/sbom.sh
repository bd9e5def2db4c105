#!/bin/sh
# sbom.sh ROOT IMAGE - prints the packages in the image's file system as SPDX 2.3 JSON
#
# Files in /usr/bin are milligpu's; the one with the name of the image comes first. For each library and for the time
# zones, dpkg names the package, its version and its source. The same root gives the same bytes: the time is
# SOURCE_DATE_EPOCH, else the modification time of that program.
set -eu
export LC_ALL=C

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "sbom.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 2 ] || { echo "sbom.sh: name the root and the image; see --help" >&2; exit 2; }
root=$1
ours=$2
[ -f "$root/usr/bin/$ours" ] || { echo "sbom.sh: no $ours in $root/usr/bin" >&2; exit 1; }
programs="$ours $(cd "$root/usr/bin" && find . -type f ! -name "$ours" -printf '%f\n' | sort)"
number=$("$root/usr/bin/$ours" --version | cut -d' ' -f2)    # milligpud 0.1.0 (commit)
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$root/usr/bin/$ours")}" +%Y-%m-%dT%H:%M:%SZ)

sum_of() { # PROGRAM
    sha256sum "$root/usr/bin/$1" | cut -d' ' -f1
}

# Files that belong to packages, each with the names that dpkg may know it by: its folder's older name (/lib for
# /usr/lib), and the file that a library is a link to.
names=$(
    find "$root" -type f \( -name '*.so' -o -name '*.so.*' -o -path '*/zoneinfo/Etc/UTC' \) | sed "s|^$root||" | sort |
        while read -r file; do
            for name in "$file" "$(readlink -f "$file")"; do
                printf '%s %s\n' "$file" "$name" "$file" "${name#/usr}" "$file" "/usr${name#/usr}"
            done
        done | sort -u
)
[ -n "$names" ] || { echo "sbom.sh: no library in $root" >&2; exit 1; }
# One question for all of them, since each takes dpkg a moment. Names that it does not know are no error.
# shellcheck disable=SC2046 # names without spaces
owners=$(dpkg-query -S $(printf '%s\n' "$names" | cut -d' ' -f2 | sort -u) 2>/dev/null || true)
owned=$( # lines of a file and its package
    {
        printf '%s\n' "$owners" | sed -n 's/^\([^ :,]*\)[^ ]*: \(\/.*\)$/= \2 \1/p'
        printf '%s\n' "$names"
    } | awk '
        $1 == "=" { owner[$2] = $3; next }
        !($1 in of) { of[$1] = "?" }
        $2 in owner { of[$1] = owner[$2] }
        END { for (file in of) print file, of[file] }' | sort
)
strange=$(printf '%s\n' "$owned" | sed -n 's/ ?$//p')
[ -z "$strange" ] || { echo "sbom.sh: $strange belongs to no package" >&2; exit 1; }
packages=$(printf '%s\n' "$owned" | cut -d' ' -f2 | sort -u)

# /lib and /usr/lib are one folder.
linked_to() { # PROGRAM
    {
        ldd "$root/usr/bin/$1" | grep -o '/[^ ]*' | sed 's|^\(/usr\)\{0,1\}|= |'
        printf '%s\n' "$owned" | sed 's|^/usr||'
    } | awk '$1 == "=" { linked[$2]; next } $1 in linked { print $2 }' | sort -u
}
# What no program is linked to is loaded by name, and may be by each of them.
loaded=$({ for name in $programs; do linked_to "$name"; done | sort -u; printf '%s\n' "$packages"; } | sort | uniq -u)

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

all=$(for name in $programs; do sum_of "$name"; done | sha256sum | cut -d' ' -f1)
cat <<EOF
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "$ours-$number",
  "documentNamespace": "https://milligpu.io/spdx/$ours-$number-$all",
  "creationInfo": {"created": "$created", "creators": ["Tool: milligpu-sbom.sh"]},
  "packages": [
EOF
comma=
for name in $programs; do
    version=$("$root/usr/bin/$name" --version)
    commit=$(printf '%s\n' "$version" | sed 's/.*[( ]\([0-9a-f]\{12\}\|unknown\)[^0-9a-f]*$/\1/')
    printf '%s' "$comma"
    package "$name" "$(printf '%s\n' "$version" | cut -d' ' -f2)" milligpu Apache-2.0 "\"sourceInfo\": \"commit $commit\"," \
        '"primaryPackagePurpose": "APPLICATION",' \
        "\"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": \"$(sum_of "$name")\"}]"
    comma=',
'
done
# shellcheck disable=SC2016,SC2086 # dpkg's own fields; names without spaces
dpkg-query -W -f '${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n' $packages | sort -u -k 1,1 |
    while read -r name version architecture source source_version; do
        printf ',\n'
        package "$name" "$version" Debian NOASSERTION "\"sourceInfo\": \"built from $source $source_version\"," \
            '"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",' \
            "  \"referenceLocator\": \"pkg:deb/debian/$(encoded "$name")@$(encoded "$version")?arch=$architecture&distro=$distribution\"}]"
    done

related() { # FROM HOW TO
    printf '%s\n    {"spdxElementId": "SPDXRef-%s", "relationshipType": "%s", "relatedSpdxElement": "SPDXRef-%s"}' \
        "$comma" "$1" "$2" "$(id_of "$3")"
    comma=,
}
printf '\n  ],\n  "relationships": ['
comma=
for name in $programs; do
    related DOCUMENT DESCRIBES "$name"
done
for name in $programs; do
    for other in $( (linked_to "$name" && printf '%s\n' "$loaded") | sort); do
        related "$name" DEPENDS_ON "$other"
    done
done
printf '\n  ]\n}\n'
