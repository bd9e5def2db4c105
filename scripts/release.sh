#!/usr/bin/env bash
# release.sh VERSION [OPTION...] - make what a release consists of in build/release-VERSION, of the commit checked out
#
#   --from TREE      take the programs of a tree that was built of this commit, such as build/release, instead of
#                    compiling; the images then have the libraries of this machine
#   --draft          also if CHANGELOG.md has no date for the version yet
#   --no-images      without the images
#   --base IMAGE     for build-images.sh: another base image than the Containerfile's
#   --archive URL    for build-images.sh: a mirror of snapshot.debian.org/archive, or ''
#
# A release is the sources, the Debian packages of this machine's Debian, both images as OCI archives, the Helm chart,
# a list of packages (SPDX) for each image, and SHA256SUMS of all of them. The same commit gives the same bytes, but for
# images that are compiled in a base image. Nothing is tagged or published. Needs root, since files of an image belong to
# another user.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

version= from= draft= images=yes
arguments=() # of build-images.sh

die() {
    echo "release.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
    --draft) draft=yes ;;
    --no-images) images= ;;
    --from | --base | --archive)
        [ $# -gt 1 ] || { echo "release.sh: $1 needs a value; see --help" >&2; exit 2; }
        [ "$1" = --from ] || arguments+=("$1" "$2")
        [ "$1" != --from ] || from=$2
        shift
        ;;
    -*) echo "release.sh: unknown option $1; see --help" >&2; exit 2 ;;
    *)
        [ -z "$version" ] || { echo "release.sh: one version, not $version and $1; see --help" >&2; exit 2; }
        version=$1
        ;;
    esac
    shift
done
[ -n "$version" ] || { echo "release.sh: name the version; see --help" >&2; exit 2; }

# --- may it be released? ---

declared_in() { # FILE EXPRESSION
    sed -n "s/$2/\1/p" "$top/$1"
}

must_declare() { # FILE EXPRESSION
    local found
    found=$(declared_in "$1" "$2")
    [ "$found" = "$version" ] || die "$1 says ${found:-no version}, not $version"
}

# Entries that the notes of this version would lack.
unreleased() {
    awk '/^## / { there = $2 == "Unreleased" } there && !/^## / && NF' "$top/CHANGELOG.md"
}

[ "$(id -u)" = 0 ] || die "needs root, since files of an image belong to another user"
changed=$(git -C "$top" status --porcelain) || die "$top is no git repository"
[ -z "$changed" ] || die "the tree differs from its commit: $changed"
must_declare CMakeLists.txt '^project(milligpu VERSION \([0-9.]*\) .*'
must_declare CHANGELOG.md "^## \(${version//./\\.}\)\( .*\)\{0,1\}\$"
if [ -z "$draft" ]; then
    grep -Eq "^## ${version//./\\.} - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" "$top/CHANGELOG.md" ||
        die "CHANGELOG.md has no date for $version: write \"## $version - $(date -u +%F)\", or use --draft"
    [ -z "$(unreleased)" ] || die "CHANGELOG.md has entries under Unreleased that belong to no version"
fi
[ ! -d "$top/charts/milligpu" ] || must_declare charts/milligpu/Chart.yaml '^version: \(.*\)'

commit=$(git -C "$top" rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git -C "$top" log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
made=$top/build/release-$version.parts
out=$made/release # moved when it is complete
rm -rf "$top/build/release-$version" "$made"
mkdir -p "$out"
trap 'rm -rf "$made"' EXIT

# --- the parts ---

sources() {
    git -C "$top" archive --format=tar --prefix="milligpu-$version/" "$commit" | gzip -9n >"$out/milligpu-$version.tar.gz"
}

# Compiles what is in the archive of the sources. The folder has the same name each time, for what programs say of it.
programs() {
    tar -C "$made" -xf "$out/milligpu-$version.tar.gz"
    from=$made/milligpu-$version/build/release
    (cd "$made/milligpu-$version" && cmake --preset release "-DMILLIGPU_COMMIT=$commit" && cmake --build "$from") \
        >"$made/log" 2>&1 || { tail -n 30 "$made/log" >&2; die "the programs do not build"; }
}

must_be_of_this_commit() {
    local program found
    for program in milligpud milligpuctl milligpu-node; do
        found=$("$from/bin/$program" --version)
        [ "$found" = "$program $version (${commit:0:12})" ] ||
            die "$from/bin/$program is \"$found\", not of version $version and commit ${commit:0:12}"
    done
}

lists_of_packages() {
    local image
    "$top/manifests/image/roots.sh" "$from/bin" "$made/roots"
    for image in milligpud milligpu-node; do
        cp "$made/roots/$image/usr/share/milligpu/sbom.spdx.json" "$out/$image-$version.spdx.json"
    done
}

# As `helm package` does, but with the time of the commit.
chart() {
    [ -d "$top/charts/milligpu" ] || return 0
    git -C "$top" archive --format=tar "$commit:charts" milligpu | tar -C "$made" -xf -
    tar -C "$made" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --mtime="@$SOURCE_DATE_EPOCH" -cf - milligpu | gzip -9n >"$out/milligpu-chart-$version.tgz"
}

pack_images() {
    local image
    [ -n "$images" ] || return 0
    if ! command -v podman >/dev/null && ! command -v buildah >/dev/null; then
        echo "release.sh: no images: neither podman nor buildah is installed" >&2
        return 0
    fi
    "$top/scripts/build-images.sh" "$@" "${arguments[@]}" --version "$version" --format oci --export "$made/images" >"$made/log" 2>&1 ||
        { tail -n 30 "$made/log" >&2; die "the images do not build"; }
    for image in milligpud milligpu-node; do
        mv "$made/images/$image.tar" "$out/$image-$version.oci.tar"
    done
}

[ -z "$from" ] || must_be_of_this_commit
sources
if [ -n "$from" ]; then
    pack_images --from "$from"
else
    pack_images
    programs
    must_be_of_this_commit
fi
"$top/scripts/build-debs.sh" "$from" "$out" >/dev/null
lists_of_packages
chart
(cd "$out" && sha256sum -- * >"$made/SHA256SUMS" && mv "$made/SHA256SUMS" .)
mv "$out" "$top/build/release-$version"
(cd "$top" && ls -l "build/release-$version")
echo "of commit $commit; to tag it: git tag -a v$version $commit"
