#!/usr/bin/env bash
# debian.sh TREE - install the packages of a built tree, such as build/release, on a bare Debian and run the demo cluster
#
# The bare Debian is a folder that debootstrap filled (base.sh; build/images keeps it), and apt installs the packages'
# dependencies from the archive of this machine. Needs root.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "debian.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { echo "debian.sh: name a built tree; see --help" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(readlink -f "$1")
[ "$(id -u)" = 0 ] || { echo 'skipped: chroot is for root'; exit 77; }
for program in debootstrap dpkg-shlibdeps unshare ip; do
    PATH="$PATH:/usr/sbin" command -v $program >/dev/null ||
        { echo "skipped: no $program here: scripts/install-deps.sh --images"; exit 77; }
done

mkdir -p "$top/build/images"
work=$(mktemp -d "$top/build/images/debian-XXXXXX")
booted= # the process of a systemd that was started here
at_exit() {
    [ -z "$booted" ] || kill -KILL "$booted"
    rm -rf --one-file-system "$work"
}
trap at_exit EXIT
root=$work/root
. "$top/tests/support/check.sh"

# With /proc, and with processes of its own, which end with the command.
inside() { # COMMAND...
    # shellcheck disable=SC2016 # of the inner shell
    unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" \
        env LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

nothing_wrong() { # warnings leave the status at 0
    inside systemd-analyze verify --man=no milligpud.service milligpu-node.service 2>&1 | tee "$work/verified"
    [ ! -s "$work/verified" ]
}

status_of() { # PACKAGE
    # shellcheck disable=SC2016 # a field of dpkg
    inside dpkg-query -W -f '${db:Status-Status}' "$1"
}

"$top/tests/packaging/base.sh" "$top/build/images/base.tar"
mkdir "$root"
tar -C "$root" -xf "$top/build/images/base.tar"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
apt-config dump | grep -E '^Acquire::(Check-|https?::Proxy)' >"$root/etc/apt/apt.conf.d/90machine" || true
mkdir "$root/debs"

echo '# the packages'
check 'packages are built' "$top/scripts/build-debs.sh" "$tree" "$root/debs"
check 'packages are built again' "$top/scripts/build-debs.sh" "$tree" "$work/again"
for package in milligpud milligpuctl milligpu-node; do
    file=$(cd "$root/debs" && echo "${package}_"*.deb)
    check "$package is the same package both times" cmp "$root/debs/$file" "$work/again/$file"
    check "$package has the version of its program" test "$(dpkg-deb --field "$root/debs/$file" Version)" = \
        "$("$tree/bin/$package" --version | cut -d' ' -f2)"
    check "$package depends on the C library that it was built with" grep -q 'libc6 (>= ' \
        <<<"$(dpkg-deb --field "$root/debs/$file" Depends)"
done

echo '# on a bare Debian'
check 'apt reads its archive' inside apt-get update -qq
# A host has systemd, which the base lacks.
check 'apt installs systemd' inside apt-get install -y -qq --no-install-recommends systemd
check 'nothing of milligpu is there' bash -c '[ -z "$(find "$1/usr" "$1/etc" -name "*milligpu*")" ]' _ "$root"
check 'apt installs the packages and what they depend on' inside sh -c 'apt-get install -y --no-install-recommends /debs/*.deb'
for program in milligpud milligpuctl milligpu-node; do
    check "$program runs" test "$(inside "$program" --version)" = "$("$tree/bin/$program" --version)"
done
check 'the plugin of kubectl runs' inside kubectl-milligpu --version
check 'there is a user milligpu without a shell' grep -q '^milligpu:.*:/usr/sbin/nologin$' "$root/etc/passwd"
check 'systemd finds nothing wrong with the units' nothing_wrong
for unit in milligpud milligpu-node; do
    check "$unit is not enabled" test "$(inside systemctl is-enabled "$unit" 2>/dev/null || true)" = disabled
done
check 'milligpud is confined: an exposure of 2 of 10 at most' inside systemd-analyze security --offline=yes --threshold=20 milligpud.service
check 'milligpu-node is confined: an exposure of 5 of 10 at most' inside systemd-analyze security --offline=yes --threshold=50 \
    milligpu-node.service

echo '# the demo cluster'
cat >"$root/demo.sh" <<'EOF'
set -eu
demo=/usr/share/milligpu/demo
milligpud --standalone $demo/cluster.json --webhook-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --port-file /tmp/ports &
for _ in $(seq 600); do
    [ ! -e /tmp/ports ] || ! milligpuctl summary -o json --port-file /tmp/ports | grep '"ready": true' || break
    kill -0 $!
    sleep 0.1
done
milligpuctl play $demo/pods.yaml --port-file /tmp/ports
milligpuctl top --port-file /tmp/ports
milligpuctl doctor --port-file /tmp/ports
kill $!
wait $!
EOF
# As the user that the unit has.
check 'it runs from the packages' inside setpriv --reuid milligpu --regid milligpu --clear-groups sh /demo.sh
cp "$work/out" "$work/demo"
check 'pods are placed, and one is refused' grep -q '^11 placed, 1 refused$' "$work/demo"
check 'top shows how much of each GPU is used' grep -q '^t4-0 .* 850 ' "$work/demo"

# With the daemon of the host and its network out of the way, and systemd as the first process.
boot() {
    unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child "$top/tests/packaging/boot.sh" "$root" >"$work/boot" 2>&1 &
    local pid=$! i
    for ((i = 0; i < 300; i++)); do
        booted=$(pgrep -P "$pid" || true)
        [ -z "$booted" ] || [[ $(there systemctl is-system-running) != @(running|degraded) ]] || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    booted=
    return 1
}

there() { # COMMAND...
    nsenter --target "$booted" --all --root --wd env -i LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@" 2>&1
}

logs() { # UNIT WORD: has that unit said it?
    there journalctl --no-pager --unit "$1" | tee "$work/journal" | grep -c -- "$2" >/dev/null
}

until_it() { # COMMAND...: patience for a busy machine
    local i
    for ((i = 0; i < 300; i++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    "$@"
}

ready() {
    there milligpuctl summary -o json | grep -c '"ready": true'
}

state_of() { # UNIT
    there systemctl show --property ActiveState --value "$1"
}

has_state() { # UNIT STATE
    [ "$(state_of "$1")" = "$2" ]
}

units_work() {
    local settings=$root/etc/milligpu/milligpud.yaml pid
    cp "$settings" "$work/milligpud.yaml"
    check 'milligpud does not start by itself' has_state milligpud inactive
    printf 'standalone: /usr/share/milligpu/demo/cluster.json\nledger: /var/lib/milligpu/ledger.db\n' >"$settings"
    check 'milligpud starts' there systemctl start milligpud
    check 'milligpud is ready' until_it ready
    check 'milligpud says so' until_it logs milligpud ' ready$'
    check 'its sandbox is not weakened by that of the unit' bash -c '! grep "cannot be limited\|cannot be protected" "$1"' _ \
        "$work/journal"
    check 'it places the pods of the demo' there milligpuctl play /usr/share/milligpu/demo/pods.yaml
    check 'a reload reads the settings again' there systemctl reload milligpud
    check 'milligpud says so' until_it logs milligpud 'settings reloaded'
    check 'the ledger is for nobody else' there sh -c 'test "$(stat -c "%U %a" /var/lib/milligpu/ledger.db)" = "milligpu 600"'
    check 'a backup of it by root is one' there milligpuctl verify /var/lib/milligpu/ledger.db
    check 'milligpud restarts' there systemctl restart milligpud
    check 'milligpud is ready again' until_it ready
    pid=$(there systemctl show --property MainPID --value milligpud)
    check 'it can be upgraded while it runs' there sh -c 'dpkg -i --force-confold /debs/milligpud_*.deb'
    check 'an upgrade restarts it' test "$(there systemctl show --property MainPID --value milligpud)" != "$pid"
    check 'milligpud is ready after an upgrade' until_it ready
    echo 'nonsense: 1' >>"$settings"
    there systemctl restart milligpud >/dev/null || true
    check 'a wrong setting ends it for good' until_it has_state milligpud failed
    check 'the journal names the line' logs milligpud 'milligpud.yaml:3: no setting is called "nonsense"'
    cp "$work/milligpud.yaml" "$settings"
    # Without a kubeconfig it cannot know its Node, but it has its folders.
    there systemctl start milligpu-node >/dev/null || true
    check 'milligpu-node says what it lacks' until_it logs milligpu-node 'kubeconfig'
    check 'it has its folders' there test -d /var/lib/milligpu-node -a -d /run/cdi -a -d /run/milligpu
    there systemctl stop milligpu-node >/dev/null || true
    rm -rf "$root/var/lib/milligpu" "$root/var/lib/milligpu-node"
}

echo '# the units, by a systemd that runs'
if boot; then
    units_work
    kill -KILL "$booted"
    booted=
    wait || true
else
    echo "skipped - the units: systemd does not start in a container here"
    tail -n 5 "$work/boot"
fi

echo '# changed, upgraded and removed'
check 'milligpud can be enabled' inside systemctl enable milligpud
echo '# mine' >>"$root/etc/milligpu/milligpud.yaml"
check 'the packages can be installed again' inside sh -c 'apt-get install -y --reinstall /debs/*.deb'
check 'changed settings stay' test "$(tail -n 1 "$root/etc/milligpu/milligpud.yaml")" = '# mine'
check 'milligpud is still enabled' test "$(inside systemctl is-enabled milligpud)" = enabled
install -d "$root/var/lib/milligpu"
touch "$root/var/lib/milligpu/ledger.db"
check 'they can be removed' inside apt-get remove -y milligpud milligpuctl milligpu-node
check 'settings stay when they are removed' test "$(status_of milligpud) $(tail -n 1 "$root/etc/milligpu/milligpud.yaml")" = \
    'config-files # mine'
check 'no link to the unit stays' bash -c '[ -z "$(find "$1/etc/systemd" -name "milligpu*")" ]' _ "$root"
check 'they can be purged' inside apt-get purge -y milligpud milligpuctl milligpu-node
check 'settings go when they are purged' test ! -e "$root/etc/milligpu"
check 'the ledger and its user stay' inside sh -c 'test -e /var/lib/milligpu/ledger.db && getent passwd milligpu'
exit $failed
