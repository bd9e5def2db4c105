#!/bin/bash
# demo.sh [--once] [--cluster FILE] - milligpu on a cluster read from a file; no Kubernetes needed.
#
#   --once           stop at the end; exit status 0 only if what it showed is right
#   --cluster FILE   your own cluster: the output of kubectl get nodes,pods -A -o json (or yaml)
#
# Installs the Debian packages it needs, builds the release, starts milligpud --standalone, schedules
# the pods of demo/pods.yaml as kube-scheduler would, and shows where they are. Without --once, it
# leaves the server running; the next run stops it.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=$HERE/build/release/bin
RUN=$HERE/build/demo
PORTS=$RUN/ports
PID_FILE=$RUN/pid
LOG=$RUN/milligpud.log
PODS=$HERE/demo/pods.yaml

once=
cluster=
server=

say() {
    printf '\n== %s\n\n' "$*"
}

die() {
    echo "demo: $*" >&2
    exit 1
}

usage() {
    sed '1d; /^#/!Q; s/^# \{0,1\}//' "${BASH_SOURCE[0]}"
}

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
        --once) once=yes ;;
        --cluster)
            [ $# -gt 1 ] || { echo "demo.sh: --cluster needs a file" >&2; exit 2; }
            cluster=$2
            shift
            ;;
        --cluster=?*) cluster=${1#*=} ;;
        -h | --help) usage; exit 0 ;;
        *) echo "demo.sh: unknown argument $1; see --help" >&2; exit 2 ;;
        esac
        shift
    done
    if [ -n "$cluster" ] && [ ! -r "$cluster" ]; then
        echo "demo: cannot read the cluster file $cluster" >&2
        exit 2
    fi
}

build() {
    "$HERE/scripts/install-deps.sh" --build
    if ! (cd "$HERE" && cmake --preset release) >"$RUN/build.log" 2>&1 ||
        ! cmake --build "$HERE/build/release" --target milligpud milligpuctl milligpu-node \
            >>"$RUN/build.log" 2>&1; then
        cat "$RUN/build.log" >&2
        die "the build failed"
    fi
}

ctl() {
    "$BIN/milligpuctl" "$@" --port-file "$PORTS"
}

# --- the server ---

# Pids are reused: the process is ours only if it runs with our port file.
is_our_server() {
    grep -zqxF -- "$PORTS" "/proc/$1/cmdline" 2>/dev/null
}

stop_server() {
    local pid=$1 i
    is_our_server "$pid" || return 0
    kill -TERM "$pid" 2>/dev/null || return 0
    for ((i = 0; i < 100; i++)); do
        is_our_server "$pid" || return 0
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
}

stop_previous() {
    local pid
    if [ -r "$PID_FILE" ] && read -r pid <"$PID_FILE" && [[ $pid =~ ^[0-9]+$ ]]; then
        stop_server "$pid"
    fi
    rm -f "$PID_FILE" "$PORTS"
}

is_taken() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Uses the default ports if they are free, so that the commands below need no address.
start_server() {
    local -a listen=()
    if is_taken 8910 || is_taken 8911; then
        listen=(--webhook-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0)
    fi
    "$BIN/milligpud" --standalone "${cluster:-$HERE/demo/cluster.json}" --port-file "$PORTS" \
        "${listen[@]}" >"$LOG" 2>&1 </dev/null &
    server=$!
    echo "$server" >"$PID_FILE"
}

is_ready() {
    [ -e "$PORTS" ] && [[ $(ctl summary -o json 2>/dev/null) == *'"ready": true'* ]]
}

wait_until_ready() {
    local i
    for ((i = 0; i < 300; i++)); do
        is_ready && return 0
        if ! kill -0 "$server" 2>/dev/null; then
            cat "$LOG" >&2
            die "milligpud did not start"
        fi
        sleep 0.1
    done
    cat "$LOG" >&2
    die "milligpud was not ready within 30 s"
}

at_exit() {
    local status=$?
    if [ -n "$server" ]; then
        stop_server "$server"
        rm -f "$PID_FILE"
    fi
    exit "$status"
}

# --- what is shown ---

play() {
    local status=0
    ctl play "$PODS" >"$RUN/played" || status=$?
    cat "$RUN/played"
    return "$status"
}

# The names in the played lines, `name outcome ...`, that have this outcome.
names_of() {
    local name outcome rest
    while read -r name outcome rest; do
        if [ "$outcome" = "$1" ] && [[ $name == */* ]]; then
            echo "$name"
        fi
    done <"$RUN/played"
}

# Prints the first of them, if any.
first_of() {
    local -a names
    mapfile -t names < <(names_of "$1")
    echo "${names[0]:-}"
}

show() {
    local refused
    say "every GPU, in thousandths: milligpuctl top"
    ctl top --bars=always
    say "who holds what: milligpuctl allocations"
    ctl allocations
    refused=$(first_of refused)
    if [ -n "$refused" ]; then
        say "why a pod waits: milligpuctl pod $refused"
        ctl pod "$refused"
    fi
    say "what if these came again and again: milligpuctl simulate --cluster ... --pods demo/what-if.yaml"
    "$BIN/milligpuctl" simulate --cluster "${cluster:-$HERE/demo/cluster.json}" \
        --pods "$HERE/demo/what-if.yaml" --policy binpack,rollout | tee "$RUN/what-if"
}

# --- is it right? ---

wrong() {
    echo "demo: wrong: $*" >&2
    faults=$((faults + 1))
}

# Prints 12 for `"milli": 12,`.
number_of() {
    local text=${1##*: }
    echo "${text%,}"
}

# Adds up what the GPUs show as used; no GPU may be used beyond its size.
check_gpus() {
    local line milli='' used=0 reserved
    gpu_sum=0
    while read -r line; do
        case $line in
        '"milli": '*) milli=$(number_of "$line") ;;
        '"usedMilli": '*) used=$(number_of "$line") ;;
        '"reservedMilli": '*)
            reserved=$(number_of "$line")
            [ -n "$milli" ] || continue # belongs to a node, not to a GPU
            gpu_sum=$((gpu_sum + used + reserved))
            # In the user's own cluster, a GPU may have been overused before.
            if [ -z "$cluster" ] && [ $((used + reserved)) -gt "$milli" ]; then
                wrong "a GPU of $milli milli has $used used and $reserved reserved"
            fi
            milli=''
            ;;
        esac
    done < <(ctl top -o json)
}

# Adds up what the allocations charge.
check_allocations() {
    local line inside=''
    charge_sum=0
    while read -r line; do
        case $line in
        '"charges": ['*) inside=yes ;;
        '"shares": ['*) inside='' ;;
        '"milli": '*) [ -z "$inside" ] || charge_sum=$((charge_sum + $(number_of "$line"))) ;;
        esac
    done < <(ctl allocations -o json)
}

check() {
    local name placed refused
    faults=0
    check_gpus
    check_allocations
    [ "$gpu_sum" -gt 0 ] || wrong "nothing is used at all"
    [ "$gpu_sum" = "$charge_sum" ] || wrong "GPUs have $gpu_sum milli in use, allocations $charge_sum"

    ctl allocations -o name >"$RUN/allocations"
    ctl waiting -o name >"$RUN/waiting"
    while read -r name; do
        grep -qxF "pod/$name" "$RUN/allocations" || wrong "$name was placed and holds nothing"
    done < <(names_of placed)
    while read -r name; do
        grep -qxF "pod/$name" "$RUN/waiting" || wrong "$name was refused and does not wait"
    done < <(names_of refused)

    if [ -z "$cluster" ]; then
        placed=$(wc -l <"$RUN/allocations")
        refused=$(cat "$RUN/waiting")
        [ "$placed" = 11 ] || wrong "$placed pods are placed, not 11"
        [ "$refused" = pod/batch/wants-h100 ] || wrong "batch/wants-h100 alone should wait, not: $refused"
        grep -qF 'no GPU of model H100*' <<<"$(ctl pod batch/wants-h100)" || wrong "the refusal does not say why"
        [ -z "$(ctl drift -o name)" ] || wrong "there is drift"
        grep -q '^rollout *14 ' "$RUN/what-if" || wrong "14 pods should fit with rollout"
        grep -q '^Fragment: *[1-9]' <<<"$(ctl summary)" || wrong "the summary shows no fragment"
    fi
    ctl doctor >"$RUN/doctor" || wrong "doctor: $(cat "$RUN/doctor")"
    [ "$faults" = 0 ] || die "$faults faults"
}

# The option that names the admin listener's address, unless that is the default.
address() {
    local name value
    while read -r name value; do
        if [ "$name" = admin ] && [ "$value" != 127.0.0.1:8911 ]; then
            echo " --server $value"
        fi
    done <"$PORTS"
}

leave_running() {
    local ctl=build/release/bin/milligpuctl at first
    at=$(address)
    first=$(first_of placed)
    say "milligpud keeps running (pid $server); try"
    cat <<END
  $ctl top --watch$at
  $ctl history ${first:-research/notebook-ada}$at
  $ctl doctor$at

stop it: kill $server
END
    server=
}

main() {
    read_arguments "$@"
    mkdir -p "$RUN"
    say "building (the first time takes a minute or two)"
    build
    stop_previous
    trap at_exit EXIT
    trap 'exit 130' INT TERM
    start_server
    wait_until_ready

    say "a dozen pods, scheduled as kube-scheduler would: milligpuctl play demo/pods.yaml"
    play || die "not every pod got a proper answer"
    show
    check
    if [ -n "$once" ]; then
        say "all of this is right"
    else
        leave_running
    fi
}

main "$@"
