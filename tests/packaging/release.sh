#!/usr/bin/env bash
# release.sh TREE [--images | --sources] - make a release of the commit twice, from a built tree, and compare
#
#   --images     the images, too: the same both times
#   --sources    compile the programs from the archive of the sources, in two folders: the same both times
#
# TREE is a built tree of this commit, such as build/release. The release is made in a clone, so what is not committed
# is not looked at. Needs root.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "release.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
case "$#:${2:-}" in
1: | 2:--images | 2:--sources) ;;
*) echo "release.sh: name a built tree, and --images, --sources or nothing; see --help" >&2; exit 2 ;;
esac
top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(readlink -f "$1")
[ "$(id -u)" = 0 ] || { echo 'skipped: files of an image belong to other users, so this needs root'; exit 77; }
commit=$(git -C "$top" rev-parse HEAD 2>/dev/null) || { echo 'skipped: a release is of a commit, and here is no history'; exit 77; }
version=$(sed -n 's/^project(milligpu VERSION \([0-9.]*\).*/\1/p' "$top/CMakeLists.txt")
[ "$("$tree/bin/milligpud" --version)" = "milligpud $version (${commit:0:12})" ] ||
    { echo "skipped: the programs in $tree are of another commit than ${commit:0:12}: build them again"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clone=$work/clone
out=$clone/build/release-$version
. "$top/tests/support/check.sh"

# A store of its own, without mounts, and containers that share this machine's namespaces.
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/store" "$work/run" >"$work/storage.conf"
export CONTAINERS_STORAGE_CONF=$work/storage.conf BUILDAH_ISOLATION=chroot

release() { # ARGUMENT...
    "$clone/scripts/release.sh" "$@"
}

refused() { # SENTENCE SAID ARGUMENT...
    local said rc=0
    said=$(release "${@:3}" 2>&1) || rc=$?
    if [ $rc != 0 ] && [[ $said == *"$2"* ]] && [ ! -e "$out" ]; then
        echo "ok - $1"
    else
        printf 'not ok - %s\n    it ended with %s: %s\n' "$1" $rc "$said"
        failed=1
    fi
}

commit_all() { # MESSAGE
    git -C "$clone" -c user.name=test -c user.email=test@localhost commit -qam "$1"
}

# In a container, the tree may belong to another user; then git clones it only where that is allowed for its .git, too.
printf '[safe]\n\tdirectory = *\n' >"$work/gitconfig"
GIT_CONFIG_GLOBAL=$work/gitconfig git clone -q "$top" "$clone"
git -C "$clone" checkout -q "$commit"

echo '# what is refused'
refused 'a version that is not the tree'"'s" 'CMakeLists.txt says' 9.9.9 --draft --from "$tree"
echo >>"$clone/README.md"
refused 'a tree with changes' 'README.md' "$version" --draft --from "$tree"
git -C "$clone" checkout -q README.md
touch "$clone/left-over"
refused 'a tree with a file that is not committed' 'left-over' "$version" --draft --from "$tree"
rm "$clone/left-over"
sed -i "s/^## $version.*/## $version (not released yet)/" "$clone/CHANGELOG.md"
git -C "$clone" diff --quiet || commit_all 'not dated'
refused 'a version without its date' "CHANGELOG.md has no date for $version" "$version" --from "$tree"
sed -i "s/^## $version.*/## $version - 2026-01-31/; s/^## Unreleased\$/&\n\n* An entry/" "$clone/CHANGELOG.md"
commit_all 'dated, and an entry that belongs to no version'
refused 'entries that belong to no version' 'entries under Unreleased' "$version" --from "$tree"
refused 'programs of another commit' 'not of version' "$version" --draft --from "$tree" --no-images
sed -i "/^## $version/d" "$clone/CHANGELOG.md"
commit_all 'no section'
refused 'a version that CHANGELOG.md does not know' 'CHANGELOG.md says no version' "$version" --draft --from "$tree"
git -C "$clone" checkout -q "$commit"

echo '# the release'
arguments=("$version" --draft)
[ "${2:-}" = --sources ] || arguments+=(--from "$tree")
[ "${2:-}" = --images ] || arguments+=(--no-images)
check 'a release is made' release "${arguments[@]}"
architecture=$(dpkg --print-architecture)
{
    echo SHA256SUMS
    printf "%s_${version}_$architecture.deb\n" milligpu-node milligpuctl milligpud
    printf "%s-$version.spdx.json\n" milligpu-node milligpud
    echo "milligpu-$version.tar.gz"
    [ ! -d "$top/charts/milligpu" ] || echo "milligpu-chart-$version.tgz"
    [ "${2:-}" != --images ] || printf "%s-$version.oci.tar\n" milligpu-node milligpud
} | sort >"$work/expected"
find "$out" -mindepth 1 -printf '%P\n' | sort >"$work/found"
check 'it has these files' diff "$work/expected" "$work/found"
check 'the sums are theirs' bash -c 'cd "$1" && sha256sum --check --strict SHA256SUMS' _ "$out"
check 'there is a sum of each file' test "$(wc -l <"$out/SHA256SUMS")" = "$(($(wc -l <"$work/found") - 1))"
check 'nothing else is left in the tree' test -z "$(git -C "$clone" status --porcelain; find "$clone/build" -mindepth 1 -maxdepth 1 ! -name "release-$version")"
tar -tzf "$out/milligpu-$version.tar.gz" | sed -n "s|^milligpu-$version/\(.*[^/]\)\$|\1|p" | sort >"$work/packed"
git -C "$top" ls-tree -r --name-only "$commit" | sort >"$work/committed"
check 'the archive has the files of the commit' diff "$work/committed" "$work/packed"
if [ -d "$top/charts/milligpu" ]; then
    mkdir "$work/chart"
    tar -C "$work/chart" -xzf "$out/milligpu-chart-$version.tgz"
    git -C "$top" archive "$commit:charts" milligpu | tar -C "$work" -xf -
    check 'the chart is that of the commit' diff -r "$work/milligpu" "$work/chart/milligpu"
fi
for image in milligpud milligpu-node; do
    check "the list of packages of $image is SPDX, of the time of the commit" jq -e --arg name "$image" \
        --arg time "$(date -u -d "@$(git -C "$top" log -1 --format=%ct "$commit")" +%Y-%m-%dT%H:%M:%SZ)" \
        '.spdxVersion == "SPDX-2.3" and .packages[0].name == $name and .creationInfo.created == $time' "$out/$image-$version.spdx.json"
done
if [ "${2:-}" = --images ]; then
    for image in milligpud milligpu-node; do
        check "$image is an OCI archive" bash -c 'tar -xOf "$1" oci-layout | jq -e ".imageLayoutVersion == \"1.0.0\""' _ \
            "$out/$image-$version.oci.tar"
        check "$image can be pulled from it" buildah pull --quiet "oci-archive:$out/$image-$version.oci.tar"
    done
fi

echo '# again'
cp "$out/SHA256SUMS" "$work/first"
if [ "${2:-}" = --sources ]; then
    # In a folder of another name, which no program may contain.
    mv "$clone" "$work/elsewhere"
    clone=$work/elsewhere
    out=$clone/build/release-$version
fi
check 'it is made again' release "${arguments[@]}"
check 'it is the same, byte for byte' diff "$work/first" "$out/SHA256SUMS"
exit $failed
