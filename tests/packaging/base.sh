#!/usr/bin/env bash
# base.sh FILE - write a bare Debian, of the version of this machine, as a tar file: what debootstrap's minbase is
#
# The packages come from the archive that this machine uses. A file that is there already stays as it is. Needs root.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "base.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { echo "base.sh: name the file; see --help" >&2; exit 2; }
[ ! -s "$1" ] || exit 0
mkdir -p "$(dirname "$1")"
work=$(mktemp -d "$(dirname "$(readlink -f "$1")")/base-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016 # fields of apt
archive=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' 'Component: main' |
    awk -v codename="$codename" '$1 == codename && !url { url = $2 } END { print url }')
PATH="$PATH:/usr/sbin" debootstrap --variant=minbase "$codename" "$work/base" "$archive"
rm -rf "$work/base"/var/cache/apt/archives/*.deb "$work/base"/var/lib/apt/lists/*
tar -C "$work/base" -cf "$work/base.tar" .
mv "$work/base.tar" "$1"
