# sweep.sh - ends what a real node leaves when nobody stops it in order; sourced by `run` and `down`.

# the containers of a node in this cluster's folder: their processes and cgroups, and the node's bridge
end_containers() { # FOLDER CGROUP
    [ -e "$1/node/bridge" ] || return 0
    for cgroup in "/sys/fs/cgroup/$2" /sys/fs/cgroup/*/"$2"; do
        [ -d "$cgroup" ] || continue
        find "$cgroup" -name cgroup.procs -exec cat {} + | xargs -r kill -KILL 2>/dev/null
        sleep 0.2
        find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    bridge=$(cat "$1/node/bridge")
    [ ! -e "/sys/class/net/$bridge" ] || { busybox ip link set "$bridge" down
        busybox brctl delbr "$bridge"; }
}

unmount_below() { # FOLDER
    awk -v below="$1/" 'index($2, below) == 1 { print $2 }' /proc/mounts |
        sort -r | while read -r mount; do umount -l "$mount"; done
}
