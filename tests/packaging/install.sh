#!/usr/bin/env bash
# install.sh TREE - install a built tree, such as build/release, into a folder, and look at what is there
#
# It asks for nothing but the built programs, so it passes after ./demo.sh, which builds them.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "install.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { echo "install.sh: name a built tree; see --help" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$top/tests/support/check.sh"

files_of() { # FOLDER
    (cd "$1" && find . ! -type d -printf '%P %m\n' | sort)
}

prefix=$work/opt
cat >"$work/expected" <<'EOF'
bin/kubectl-milligpu 777
bin/kubectl_complete-milligpu 777
bin/milligpu-node 755
bin/milligpuctl 755
bin/milligpud 755
etc/milligpu/milligpu-node.env 644
etc/milligpu/milligpud.yaml 644
lib/systemd/system/milligpu-node.service 644
lib/systemd/system/milligpud.service 644
share/bash-completion/completions/milligpuctl 644
share/doc/milligpu-node/CHANGELOG.md 644
share/doc/milligpu-node/copyright 644
share/doc/milligpuctl/CHANGELOG.md 644
share/doc/milligpuctl/copyright 644
share/doc/milligpud/CHANGELOG.md 644
share/doc/milligpud/copyright 644
share/fish/vendor_completions.d/milligpuctl.fish 644
share/man/man1/milligpuctl.1 644
share/man/man8/milligpu-node.8 644
share/man/man8/milligpud.8 644
share/milligpu/demo/cluster.json 644
share/milligpu/demo/pods.yaml 644
share/milligpu/demo/what-if.yaml 644
share/milligpu/policy/inference.yaml 644
share/milligpu/policy/mixed.yaml 644
share/milligpu/policy/policy.schema.json 644
share/milligpu/policy/training.yaml 644
share/zsh/site-functions/_milligpuctl 644
EOF
check 'cmake --install works' cmake --install "$tree" --prefix "$prefix"
files_of "$prefix" >"$work/found"
check 'it installs these files' diff "$work/expected" "$work/found"

for program in milligpud milligpuctl milligpu-node; do
    check "$program runs from there" test "$("$prefix/bin/$program" --version)" = "$("$tree/bin/$program" --version)"
done
check 'kubectl finds the plugin by its name' "$prefix/bin/kubectl-milligpu" --version
for shell in bash zsh fish; do
    check "the completion for $shell is the program's" cmp <("$tree/bin/milligpuctl" completion "$shell") \
        "$(find "$prefix/share" -path "*$shell*" -name '*milligpuctl*')"
done
for program in milligpud milligpu-node; do
    unit=$prefix/lib/systemd/system/$program.service
    check "the unit of $program starts the installed one" grep -q "^ExecStart=$prefix/bin/$program\( \|\$\)" "$unit"
    check "the unit of $program has no place left open" bash -c '! grep @[A-Z]*@ "$1"' _ "$unit"
done
check 'the unit of milligpud reads the installed settings' grep -q " --config $prefix/etc/milligpu/milligpud.yaml\$" \
    "$prefix/lib/systemd/system/milligpud.service"
check 'the unit of milligpu-node reads the installed settings' grep -q "^EnvironmentFile=-$prefix/etc/milligpu/milligpu-node.env\$" \
    "$prefix/lib/systemd/system/milligpu-node.service"
# ProtectClock, too, since it allows one device, and then no other is.
check 'the unit of milligpu-node hides no GPU' bash -c '! grep -E "^(PrivateDevices|ProtectClock|DeviceAllow|DevicePolicy)=" "$1"' _ \
    "$prefix/lib/systemd/system/milligpu-node.service"

# Each setting that the example files show, those behind a # as well, is one that the program knows.
touch "$work/kubeconfig"
settings() { # FILE: with the lines that are shown only
    sed "s|^# \{0,1\}||" "$1" | grep "^[a-z_]*: [^ ]*$" | sort -u -t : -k 1,1
}
settings "$prefix/etc/milligpu/milligpud.yaml" | sed "s|/etc/milligpu/kubeconfig|$work/kubeconfig|; /^webhook_c\|^webhook_k/d" >"$work/milligpud.yaml"
settings "$prefix/etc/milligpu/milligpud.yaml" >"$work/all.yaml"
check 'the example of milligpud shows nine settings and more' test "$(wc -l <"$work/all.yaml")" -ge 9
check 'milligpud knows each setting of its example' "$prefix/bin/milligpud" --print-config --config "$work/all.yaml"
sed -n 's/^#\{0,1\}\(MILLIGPU_NODE_[A-Z_]*=\)/\1/p' "$prefix/etc/milligpu/milligpu-node.env" >"$work/node.env"
check 'the example of milligpu-node shows settings' test "$(wc -l <"$work/node.env")" -ge 3
check 'milligpu-node knows each setting of its example' bash -c 'set -a; . "$1"; exec "$2" --print-config' _ \
    "$work/node.env" "$prefix/bin/milligpu-node"

echo '# mine' >>"$prefix/etc/milligpu/milligpud.yaml"
rm "$prefix/bin/milligpud"
check 'it can be installed again' cmake --install "$tree" --prefix "$prefix"
check 'changed settings stay' test "$(tail -n 1 "$prefix/etc/milligpu/milligpud.yaml")" = '# mine'
check 'programs are replaced' test -x "$prefix/bin/milligpud"

check 'it can be installed for a package' env DESTDIR="$work/root" cmake --install "$tree" --prefix /usr
check 'settings then are in /etc' test -f "$work/root/etc/milligpu/milligpud.yaml"
check 'units then name /usr/bin and /etc' grep -q '^ExecStart=/usr/bin/milligpud --config /etc/milligpu/milligpud.yaml$' \
    "$work/root/usr/lib/systemd/system/milligpud.service"
check 'zsh of Debian finds the completion' test -f "$work/root/usr/share/zsh/vendor-completions/_milligpuctl"
exit $failed
