#!/usr/bin/env bash
# boot.sh FOLDER - start the systemd that is installed in FOLDER as the init of a container, until it is told to end
#
# Call it in namespaces of its own: unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child boot.sh FOLDER.
# systemd has /dev, /proc, /sys and a hierarchy of cgroups there, which is what units with restrictions need. Needs root.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "boot.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { echo "boot.sh: name the folder; see --help" >&2; exit 2; }
[ $$ = 1 ] || { echo "boot.sh: this is no init; see --help" >&2; exit 2; }
root=$(readlink -f "$1")

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=0755 tmpfs dev
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# With the first version of cgroups, systemd needs but a hierarchy for itself.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd,xattr cgroup sys/fs/cgroup/systemd
fi
ip link set lo up
# Not chroot, in which nobody can make a user namespace.
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=unshare PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target
