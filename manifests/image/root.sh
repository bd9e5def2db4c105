#!/bin/sh
# root.sh FOLDER PROGRAM... - makes the file system of an image: programs, their shared libraries, time zones, a user
#
# Nothing else is needed: the C library resolves host names by itself (files and DNS are built in), and the API server's
# CA certificate comes with the ServiceAccount. libgcc_s is loaded by name when a thread is cancelled. The libraries are
# those of this machine, so the programs must have been compiled for it. With SOURCE_DATE_EPOCH, all files have that time.
set -eu

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "root.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -ge 2 ] || { echo "root.sh: name a folder and a program; see --help" >&2; exit 2; }
root=$1
shift
user=65532
umask 022

mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/etc" "$root/tmp" "$root/var/lib/milligpu"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"

add() { # FILE
    mkdir -p "$root$(dirname "$1")"
    cp -L "$1" "$root$1"
}

for program in "$@"; do
    libraries=$(ldd "$program") || { echo "root.sh: $program is not linked to shared libraries" >&2; exit 1; }
    case $libraries in *"not found"*) echo "root.sh: missing: $libraries" >&2; exit 1 ;; esac
    for file in $(printf '%s\n' "$libraries" | grep -o '/[^ ]*'); do
        add "$file"
    done
    install -m 0755 -s "$program" "$root/usr/bin/"
done
add "/lib/$(gcc -print-multiarch)/libgcc_s.so.1"

# For the windows of policies. What is in posix and right are the same zones again.
zones=/usr/share/zoneinfo
[ -e $zones/Europe/Berlin ] || { echo "root.sh: no time zones in $zones: install tzdata" >&2; exit 1; }
mkdir -p "$root$zones"
cp -a $zones/. "$root$zones"
rm -rf "$root$zones/posix" "$root$zones/right" "$root$zones/localtime"

printf 'milligpu:x:%s:%s:milligpu:/var/lib/milligpu:/usr/bin/false\n' $user $user >"$root/etc/passwd"
printf 'milligpu:x:%s:\n' $user >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"
chown $user:$user "$root/var/lib/milligpu"
[ -z "${SOURCE_DATE_EPOCH:-}" ] || find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
