#!/bin/bash
# test.sh [all | STEP...] - install what is needed, build, and test.
# test.sh story [NAME...] - run stories: longer tests of one kind, which CI runs in turn.
#
# Without arguments, it runs the quick steps (packages asan manifests demo, and of asan all but
# some long tests): about five minutes on two cores. "all" runs every step, as CI does; names run
# only those steps (./test.sh asan tsan). The steps: packages asan clang release trust fuzz mutation
# model tsan demo controlplane manifests story.
#
# The stories: 1.34.4 1.36.3 (other control planes) containerd images database. Named, a story runs whole; the step
# runs the one whose turn it is, and that one so that it takes less than twelve minutes. The turn is
# a number that grows with each day and each commit (MILLIGPU_TURN sets it). clang and mutation look
# at what has changed and, by the same turn, at a tenth of the rest; all of it: tests/clang/run --all
# and tests/mutation/run --all. tests/README.md says what each step takes, and what only it finds.
#
# A skipped step says why; with CI=true, a skip is a failure. MILLIGPU_E2E=0 leaves out the real
# control plane. The last line counts the steps; the exit status is 0 only if nothing failed.
set -uo pipefail
case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")" || exit 1
. tests/support/what_failed.sh

QUICK=(packages asan manifests demo)
# Without a step, these tests are left out: they are long, and a newcomer waits five minutes at most.
LONG=(unit.app.{fault_loop,many_pods} unit.core.place_level unit.store.{killed_checkpoint,migrating,verify} unit.wire.listed_names
    e2e.{backup,border,completion,ctl,dashboards,demo,events,faults,fleet,keys,many_clients,migrate,mps,node,page_runs,quiet,rules}
    e2e.{simulate,usage} power.sample)
LEFT_OUT=()
E2E_BY_TURN=false
STEPS=(packages asan clang release trust fuzz mutation model tsan demo controlplane manifests story)
STORIES=(1.34.4 1.36.3 containerd images database)
JOBS=${JOBS:-$(nproc)}
WAITING_JOBS=$((JOBS + JOBS / 2)) # for tests of which many wait for a server more than they compute
SKIP=77

skip() {
    echo "skipped: $*"
    exit $SKIP
}

build() { # preset [target...]: configure and build; without targets, everything
    local name=$1
    shift
    cmake --preset "$name" >"build/$name.configure.log" 2>&1 ||
        { cat "build/$name.configure.log"; return 1; }
    cmake --build --preset "$name" -j "$JOBS" ${1:+--target "$@"}
}

one_of() { # NAME...: a regular expression; without names, of no test
    local IFS='|'
    echo "^($*)\$"
}

check() { # preset ctest argument...
    local name=$1
    shift
    ctest --test-dir "build/$name" -j "$JOBS" --output-on-failure --no-tests=error "$@"
}

# Tests of whole programs that ask one thing after the other, and so meet no race; and the one that looks for races.
ONE_THING='completion|examples|migrate|output|pages|page_runs'
RACES=load

# If all steps run, the two builds with sanitizers share the other tests of whole programs: each has every second one, by turn.
left_to_the_other_build() { # 0|1: a build
    local name n
    $E2E_BY_TURN || return 0
    n=$(turn)
    for name in tests/e2e/test_*; do
        name=${name##*/test_}
        name=${name%.*}
        [[ "$name" =~ ^($ONE_THING|$RACES)$ ]] || [ $((n++ % 2)) = "$1" ] || echo "e2e.$name"
    done
}

step_packages() {
    scripts/install-deps.sh --build --test
}

# All tests but crash, with the address and undefined behavior sanitizers, and the tidy checks.
step_asan() {
    python3 -c 'import pty; pty.openpty()' 2>/dev/null ||
        echo "skipped: the tests of a terminal, since there is no pseudo-terminal (mount /dev/pts)"
    build asan
    if [ ${#LEFT_OUT[@]} -gt 0 ]; then
        echo "left out, since they are long: ${LEFT_OUT[*]} (./test.sh asan runs all)"
    fi
    local others
    others=$(left_to_the_other_build 0)
    [ -z "$others" ] || echo "left to tsan in this turn:" $others
    check asan -LE 'never|crash' -E "$(one_of "${LEFT_OUT[@]}" $others)" -j "$WAITING_JOBS"
}

# clang warns about other mistakes than gcc, and clang-tidy reads what has changed.
step_clang() {
    tests/clang/run
}

# A release of this commit, twice.
release_twice() {
    local rc=0
    tests/packaging/release.sh build/release || rc=$?
    # No history, not root, or built before the commit: what a step skips, it says.
    [ $rc = 0 ] || { [ $rc = $SKIP ] && [ "${CI:-}" != true ]; }
}

quick_bench() { # NAME
    BUILD=build/fast bench/run --built --quick "$1" >"build/bench.$1.txt" ||
        { echo "bench $1:"; tail "build/bench.$1.txt"; return 1; }
}
export -f quick_bench

step_release() {
    build release
    local program looks sign
    local signs=('Position-Independent Executable' BIND_NOW GNU_RELRO __memcpy_chk)
    # Landing pads for indirect branches, and a probe of each page of a large stack frame.
    [ "$(uname -m)" != x86_64 ] || signs+=(endbr64 'or[lq] +\$0x0,(0x[0-9a-f]+)?\(%rsp\)')
    for program in build/release/bin/milligpud build/release/bin/milligpu-node build/release/bin/milligpuctl; do
        looks=$(readelf --wide --file-header --dynamic --program-headers --dyn-syms "$program"
            objdump --disassemble --no-show-raw-insn "$program")
        for sign in "${signs[@]}"; do
            grep -qE "$sign" <<<"$looks" || { echo "$program lacks $sign"; return 1; }
        done
        if strings -d "$program" | grep -F "$PWD"; then
            echo "$program names the folder it was built in"
            return 1
        fi
    done
    tests/manifests/image.sh build/release/bin milligpud
    tests/manifests/image.sh build/release/bin milligpu-node
    release_twice
    # What sanitizers would change: the size of the agent, the time that large documents take.
    local test
    for test in 'test_node.py Agent.test_agent__is_small' 'test_migrate.py Migrate.test_large_documents__finish'; do
        MILLIGPU_BIN_DIR=$PWD/build/release/bin MILLIGPU_BUILD_DIR=$PWD/build/release python3 -B tests/e2e/$test
    done
    # The figures are not used; this only proves that the benchmarks still run. In the build of the long tests, since LTO
    # takes half a minute of the processor for each of them.
    build fast benches milligpud milligpu-node milligpuctl
    # Side by side: the agent waits for a minute, and each other one computes in one thread.
    printf '%s\n' agent worst filter events crowd bind memory verify waiting |
        xargs -P "$WAITING_JOBS" -I{} bash -c 'quick_bench {}'
    build release bench.instructions
    bench/instructions
}

# The tests that let the disk fail at every point, and those in which calls fail. Under a sanitizer, they take some of the points.
LOOPS=(unit.store.{faults,heal,migrating} unit.app.fault_loop)

# Is the ledger always right? Fixed seeds (of those beyond the first, a quarter in each turn), kill -9, power loss, every
# point at which the disk may fail. Fresh seeds are left to tests/sim/run: about one in ten thousand finds something, and
# seldom a fault of the commit that CI looks at.
step_trust() {
    build fast simulate power milligpud fake_api crash_ledger "${LOOPS[@]}"
    check fast -R "^(sim\.seeds|sim\.twice|crash|power)|$(one_of "${LOOPS[@]}")"
    local quarters=(213-409 410-606 607-803 804-1000)
    tests/sim/run --seeds "${quarters[$(turn) % 4]}" --jobs "$JOBS"
}

# 90 s of fresh inputs.
step_fuzz() {
    tests/fuzz/run --seconds 90
}

# Do the tests notice mistakes? Branch coverage of core; the mutants that are due, of core and of the SQL.
step_mutation() {
    tests/mutation/run --all --list >/dev/null # takes seconds; the rest takes minutes
    tests/mutation/coverage
    tests/mutation/run --due
}

step_model() {
    docs/model/run
}

# Only tests with threads can meet a race (WITH_THREADS in tests/CMakeLists.txt).
step_tsan() {
    build tsan tests-threads tests-e2e
    local others
    others=$(left_to_the_other_build 1)
    [ -z "$others" ] || echo "left to asan in this turn:" $others
    check tsan -L 'threads|e2e' -E "^e2e\.($ONE_THING)$|$(one_of $others)" -j "$WAITING_JOBS"
}

# With Helm, if the step controlplane has built it.
step_manifests() {
    tests/manifests/check.sh
}

step_demo() {
    ./demo.sh --once
    demo_stays
    tests/packaging/install.sh build/release
}

# The server that it leaves running answers, until it is stopped as the last line says.
demo_stays() {
    local ctl=build/release/bin/milligpuctl ports=build/demo/ports pid
    ./demo.sh >build/demo.txt || { cat build/demo.txt; return 1; }
    pid=$(sed -n 's/^stop it: kill //p' build/demo.txt)
    $ctl summary --port-file $ports
    $ctl doctor --port-file $ports
    kill "$pid"
    for _ in {1..600}; do
        grep -zqxF -- "$PWD/$ports" "/proc/$pid/cmdline" 2>/dev/null || return 0
        sleep 0.1
    done
    echo "the server of demo.sh does not end"
    return 1
}

# What tests of the control plane need; the components are built if they are not there yet.
have_control_plane() {
    if [ "${MILLIGPU_E2E:-1}" = 0 ]; then
        skip "MILLIGPU_E2E=0"
    fi
    export PATH="$PATH:/usr/local/go/bin"
    command -v go >/dev/null ||
        skip "no Go here, and the real control plane is built from Go modules"
    scripts/install-deps.sh --controlplane
    [ -x build/release/bin/milligpud ] && [ -x build/release/bin/milligpu-node ] || build release
}

control_plane() { # [go test argument...]
    have_control_plane
    tests/controlplane/run "$@"
}

# The components as they are shipped are left to the story images.
step_controlplane() {
    [ -e /dev/nvidiactl ] || echo "skipped: the tests of a real GPU, since this machine has none"
    have_control_plane
    tests/controlplane/halves --skip 'DaemonSet|StatefulSet'
    [ "$(id -u)" = 0 ] || return 0 # containers need root
    up_and_down
}

# The node that is left running for people: a pod runs there and sees its GPU.
up_and_down() {
    local rc=0 dir=build/controlplane/up
    tests/controlplane/up --node >build/up.log
    (
        . $dir/env &&
            kubectl apply -f tests/controlplane/real.yaml &&
            kubectl wait --for=condition=Ready pod/real --timeout=60s &&
            grep -q 'I see .*/dev/nvidia[0-9].* and void' $dir/node/pod-logs/default_real_*/main/*.log
    ) || rc=$?
    tests/controlplane/down
    return $rc
}

# A story is called with "whole", or with "part" if it must take less than twelve minutes.

# Tests of what differs between versions: listed and watched objects, kube-scheduler's calls, kubelet.
OTHER_VERSION='TwentyPods|TwoThousand|AWaitingPod|NewerPod|KillNine|LostLedger|OneLine|Before136|AllManifests|FirstHour'

story_control_plane() { # whole|part VERSION
    export KUBERNETES_VERSION=$2
    if [ "$1" = part ]; then
        MILLIGPU_TEST_TIMEOUT=10m control_plane -run "$OTHER_VERSION"
    else
        have_control_plane
        tests/controlplane/halves
    fi
}

# Tests of what differs between versions of containerd: NRI, CDI devices of plugins, the validator.
OTHER_CONTAINERD='ValidatorsFile|WithOneLineSees|ContainersWithShares|InitContainersAnd|AgentThatWasKilled|AgentHangs|AgentDies'
OTHER_CONTAINERD+='|AgentNeverCame|ContainerdRestarted|AnotherPlugin|orged|ASandbox|APluginThat|TwoAgents|TheValidator'

# Nodes with the containerd of many a cluster that is older than ours.
story_containerd() { # whole|part
    CONTAINERD_VERSION=1.7.29 control_plane -run Containerd17
    CONTAINERD_VERSION=2.1.9 control_plane -run Containerd21
    CONTAINERD_VERSION=2.2.9 control_plane -run "$OTHER_CONTAINERD"
}

# The images by a real tool, from the built tree and, as a whole, from sources, too; both on a node, as they are shipped.
story_images() { # whole|part
    local sources=()
    [ "$1" = part ] || sources=(--sources)
    scripts/install-deps.sh --images
    build release
    tests/manifests/images.sh build/release "${sources[@]}"
    tests/packaging/debian.sh build/release
    if [ "$1" = whole ]; then
        tests/packaging/release.sh build/release --images
        tests/packaging/release.sh build/release --sources
    fi
    control_plane -run 'DaemonSet|StatefulSet'
}

# The ledger's file for longer than in each run: the disk fails at every point, under the sanitizers; more
# kills; power loss at more points, or at all.
story_database() { # whole|part
    local kills=400 points=(--sample 2000 --seed "$(turn)")
    [ "$1" = part ] || kills=5000 points=(--exhaustive)
    build fast power milligpud fake_api crash_ledger
    build asan "${LOOPS[@]}" unit.store.released
    POINTS=all check asan -R "$(one_of "${LOOPS[@]}" unit.store.released)"
    build/fast/tests/power "${points[@]}"
    tests/crash/run --build build/fast --kills $kills
}

story() { # whole|part NAME
    case $2 in
    [0-9]*) story_control_plane "$@" ;;
    *) "story_$2" "$1" ;;
    esac
}

turn() {
    python3 -B tests/support/due.py
}

# The story whose turn it is. On a slow machine it is left out, so that CI ends within an hour.
STORY_LATEST_S=3000
step_story() {
    local number name
    number=$(turn)
    name=${STORIES[number % ${#STORIES[@]}]}
    echo "turn $number: story $name; all stories: ${STORIES[*]}"
    if [ $SECONDS -gt $STORY_LATEST_S ]; then
        echo "left out: the steps before it took $SECONDS s, more than $STORY_LATEST_S"
        return
    fi
    story part "$name"
}

RESULTS=()
PASSED=0
FAILED=0
WHAT_FAILED=

strict() { # command...
    (
        set -euo pipefail
        "$@"
    )
}

run_step() { # name command...
    local name=$1 start=$SECONDS rc log=build/step.log
    shift
    mkdir -p build
    printf '\n==== %s\n' "$name"
    if [ -t 1 ]; then
        strict "$@"
        rc=$?
    else
        strict "$@" 2>&1 | tee $log
        rc=${PIPESTATUS[0]}
    fi
    count_step "$name" "$rc" $((SECONDS - start)) "$([ -t 1 ] || echo $log)"
}

count_step() { # NAME STATUS SECONDS LOG: no LOG if a person has seen what failed
    local name=$1 rc=$2 seconds=$3 log=$4 word=passed
    if [ $rc = $SKIP ] && [ "${CI:-}" != true ]; then
        word=skipped
    elif [ $rc = 0 ]; then
        PASSED=$((PASSED + 1))
    else
        word=FAILED
        FAILED=$((FAILED + 1))
        [ -z "$log" ] || WHAT_FAILED+="---- what failed in $name:"$'\n'$(what_failed "$log" 12)$'\n'
    fi
    RESULTS+=("$(printf '%-14s %-8s %5d s' "$name" "$word" "$seconds")")
}

# The tests on a control plane wait more than they compute, so mutants are tried beside them, at the lowest priority. A
# process group of its own, which ends with this script.
BESIDE=
begin_beside() { # NAME COMMAND...
    local name=$1 log=build/beside.log
    shift
    mkdir -p build
    rm -f build/beside.seconds
    set -m
    (
        renice -n 19 -p $BASHPID >/dev/null
        SECONDS=0
        strict "$@"
        rc=$?
        echo "$SECONDS" >build/beside.seconds
        exit $rc
    ) >$log 2>&1 </dev/null &
    BESIDE=$!
    set +m
    trap 'kill -INT -- -$BESIDE 2>/dev/null' EXIT # as Ctrl-C does, so that it removes its files
    printf '\n==== %s begins, beside the next step\n' "$name"
}

end_beside() { # NAME
    local rc=0
    wait "$BESIDE" || rc=$?
    BESIDE=
    trap - EXIT
    printf '\n==== %s\n' "$1"
    cat build/beside.log
    count_step "$1" $rc "$(cat build/beside.seconds || echo 0)" build/beside.log
}

must_be_one_of() { # word what name...: else there is no such thing
    [[ " ${*:3} " == *" $1 "* ]] || {
        echo "test.sh: no $2 is called $1; there are: ${*:3}" >&2
        exit 2
    }
}

main() {
    local name both=false
    local -a steps=("${@:-${QUICK[@]}}")
    [ $# -gt 0 ] || LEFT_OUT=("${LONG[@]}")
    if [ "${steps[0]}" = story ] && [ $# -gt 1 ]; then
        for name in "${@:2}"; do
            must_be_one_of "$name" story "${STORIES[@]}"
        done
        for name in "${@:2}"; do
            run_step "story $name" story whole "$name"
        done
    else
        for name in "${steps[@]}"; do
            must_be_one_of "$name" step all "${STEPS[@]}"
        done
        if [[ " ${steps[*]} " == *" all "* ]]; then
            steps=("${STEPS[@]}")
            E2E_BY_TURN=true
        fi
        [[ " ${steps[*]} " != *" mutation "* || " ${steps[*]} " != *" controlplane "* ]] || both=true
        for name in "${steps[@]}"; do
            case $both:$name in
            true:mutation) ;;
            true:controlplane)
                begin_beside mutation step_mutation
                run_step controlplane step_controlplane
                end_beside mutation
                ;;
            *:packages) # with Python; the turn is that of the first day, past midnight, too
                run_step packages step_packages
                MILLIGPU_TURN=$(turn) && export MILLIGPU_TURN
                ;;
            *) run_step "$name" "step_$name" ;;
            esac
        done
    fi
    printf '\n%s' "$WHAT_FAILED"
    printf '%s\n' "${RESULTS[@]}"
    printf '%d passed, %d failed\n' $PASSED $FAILED
    [ $FAILED = 0 ]
}

main "$@"
