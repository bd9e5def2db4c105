#!/bin/bash
# install-deps.sh [--build] [--test] [--controlplane] [--images] - install the Debian packages that are missing.
#
#   --build          what compiling milligpu needs (the default)
#   --test           also what ./test.sh needs
#   --controlplane   also what running pods on a real kubelet needs
#   --images         also what building and testing the images needs
#
# Installs as root or through sudo. If nothing is missing, it takes no time and changes
# nothing. On other systems, it names what is missing and installs nothing.
set -euo pipefail

# One per line: the package, and what shows that it is installed: a command, @ and a pkg-config
# module, or a path.
BUILD_NEEDS='
gcc                        gcc
libc6-dev                  /usr/include/stdio.h
cmake                      cmake
ninja-build                ninja
pkg-config                 pkg-config
libsqlite3-dev             @sqlite3
libcurl4-openssl-dev       @libcurl
libnghttp2-dev             @libnghttp2
libssl-dev                 @libssl
libjansson-dev             @jansson
libyaml-dev                @yaml-0.1
libmicrohttpd-dev          @libmicrohttpd
libgnutls28-dev            @gnutls
libprotobuf-c-dev          @libprotobuf-c
protobuf-c-compiler        protoc-c
libsmartcols-dev           @smartcols
libseccomp-dev             @libseccomp
tzdata                     /usr/share/zoneinfo/Europe/Berlin
'
TEST_NEEDS='
binutils                   nm
libcmocka-dev              @cmocka
clang                      clang
clang-format               clang-format
clang-tidy                 clang-tidy
libclang-rt-14-dev         /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux
python3                    /usr/share/doc/python3
python3-yaml               /usr/share/doc/python3-yaml
sqlite3                    sqlite3
spin                       spin
curl                       curl
jq                         jq
openssl                    openssl
nghttp2-server             nghttpd
zsh                        zsh
fish                       fish
procps                     ps
dpkg-dev                   dpkg-shlibdeps
file                       file
prometheus                 promtool
valgrind                   valgrind
ca-certificates            /etc/ssl/certs/ca-certificates.crt
'
CONTROLPLANE_NEEDS='
runc                       runc
containernetworking-plugins /usr/lib/cni/bridge
busybox-static             busybox
buildah                    buildah
iproute2                   ip
ca-certificates            /etc/ssl/certs/ca-certificates.crt
git                        git
'
IMAGES_NEEDS='
buildah                    buildah
debootstrap                debootstrap
debian-archive-keyring     /usr/share/keyrings/debian-archive-keyring.gpg
dpkg-dev                   dpkg-shlibdeps
file                       file
iproute2                   ip
jq                         jq
procps                     pgrep
'

is_there() {
    case $1 in
    @*) command -v pkg-config >/dev/null && pkg-config --exists "${1#@}" ;;
    /*) [ -e "$1" ] ;;
    *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
    esac
}

missing_of() {
    local package sign
    while read -r package sign; do
        if [ -n "$package" ] && ! is_there "$sign"; then
            echo "$package"
        fi
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "install-deps: neither root nor sudo; as root run: $*" >&2
        return 1
    fi
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" </dev/null
}

# The package lists may be missing (a fresh image) or may name versions that the mirror no longer has.
install_with_update() {
    if apt-cache show "$@" >/dev/null 2>&1 && install_packages "$@"; then
        return 0
    fi
    as_root apt-get update -qq
    install_packages "$@"
}

# Tests start the programs of the package prometheus themselves, and need no server that runs all the time.
stop_prometheus() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --quiet --now prometheus.service
    fi
}

main() {
    local needs=$BUILD_NEEDS argument
    for argument in "$@"; do
        case $argument in
        --build) ;;
        --test) needs+=$TEST_NEEDS ;;
        --controlplane) needs+=$CONTROLPLANE_NEEDS ;;
        --images) needs+=$IMAGES_NEEDS ;;
        -h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
        *) echo "install-deps.sh: unknown argument $argument; see --help" >&2; exit 2 ;;
        esac
    done

    local -a missing
    mapfile -t missing < <(missing_of <<<"$needs" | sort -u)
    if [ ${#missing[@]} = 0 ]; then
        return 0
    fi
    if ! command -v apt-get >/dev/null; then
        echo "install-deps: missing, by their Debian names: ${missing[*]}" >&2
        return 1
    fi
    echo "installing: ${missing[*]}"
    install_with_update "${missing[@]}"
    [[ " ${missing[*]} " != *" prometheus "* ]] || stop_prometheus
    if [ -n "$(missing_of <<<"$needs")" ]; then
        echo "install-deps: still missing: $(missing_of <<<"$needs" | tr '\n' ' ')" >&2
        return 1
    fi
}

main "$@"
