#!/bin/bash
# test.sh [all | STEP...] - install what is needed, build, and test.
#
# Without arguments, it runs the quick steps (packages asan manifests demo): some minutes on two
# cores. "all" runs every step, as CI does; names run only those steps (./test.sh asan tsan). The
# steps: packages asan clang release trust fuzz mutation model tsan manifests demo controlplane.
#
# A skipped step says why; with CI=true, a skip is a failure. MILLIGPU_E2E=0 leaves out the real
# control plane. The last line counts the steps; the exit status is 0 only if nothing failed.
set -uo pipefail
case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")" || exit 1

QUICK=(packages asan manifests demo)
STEPS=(packages asan clang release trust fuzz mutation model tsan manifests demo controlplane)
JOBS=${JOBS:-$(nproc)}
SKIP=77

skip() {
    echo "skipped: $*"
    exit $SKIP
}

preset() { # name [ctest argument...]: configure, build and, given arguments, test
    local name=$1
    shift
    cmake --preset "$name" >"build/$name.configure.log" 2>&1 ||
        { cat "build/$name.configure.log"; return 1; }
    cmake --build --preset "$name" -j "$JOBS"
    if [ $# -gt 0 ]; then
        ctest --test-dir "build/$name" -j "$JOBS" --output-on-failure --no-tests=error "$@"
    fi
}

step_packages() {
    scripts/install-deps.sh --build --test
}

# All tests but crash, with the address and undefined behavior sanitizers, and the tidy checks.
step_asan() {
    python3 -c 'import pty; pty.openpty()' 2>/dev/null ||
        echo "skipped: the tests of a terminal, since there is no pseudo-terminal (mount /dev/pts)"
    preset asan -LE 'never|crash' -j $((JOBS + JOBS / 2)) # many wait for a server more than they compute
}

# clang warns about other mistakes than gcc, and the same build runs clang-tidy.
step_clang() {
    preset tidy
}

step_release() {
    preset release
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
    tests/manifests/image.sh build/release/bin/milligpud
    tests/manifests/image.sh build/release/bin/milligpu-node
    # The size of the agent can only be looked at in a build without sanitizers.
    MILLIGPU_BIN_DIR=$PWD/build/release/bin MILLIGPU_BUILD_DIR=$PWD/build/release \
        python3 -B tests/e2e/test_node.py Agent.test_it_is_small
    # The figures are not used; this only proves that the benchmarks still run.
    bench/run --quick filter worst bind memory verify waiting crowd events agent >build/bench.txt ||
        { tail build/bench.txt; return 1; }
}

# Is the ledger always right? Fixed seeds, kill -9, power loss. Fresh seeds are left to tests/sim/run:
# about one in ten thousand finds something, and seldom a fault of the commit that CI looks at.
step_trust() {
    cmake --preset fast >build/fast.configure.log 2>&1 || { cat build/fast.configure.log; return 1; }
    cmake --build --preset fast -j "$JOBS" \
        --target simulate power milligpud fake_api crash_ledger
    ctest --test-dir build/fast -j "$JOBS" --output-on-failure --no-tests=error \
        -R '^(sim\.seeds|sim\.twice|crash|power)'
    tests/sim/run --seeds 151-1000 --jobs "$JOBS"
}

# 90 s of fresh inputs.
step_fuzz() {
    tests/fuzz/run --seconds 90
}

# Do the tests notice mistakes? Branch coverage of core; every mutant of core and of the SQL.
step_mutation() {
    tests/mutation/run --all --list >/dev/null # takes seconds; the rest takes minutes
    tests/mutation/coverage
    tests/mutation/run --all
}

step_model() {
    docs/model/run
}

# Only code with threads can race; base, core, wire, ctl and the loops over the disk have none.
step_tsan() {
    preset tsan -LE 'tidy|table|golden|fuzz|sim|crash|power' -E '^unit\.(base|core|wire|ctl)\.|^unit\.store\.(faults|heal|migrating)$'
}

step_manifests() {
    tests/manifests/check.sh
}

step_demo() {
    ./demo.sh --once
    demo_stays
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

step_controlplane() {
    if [ "${MILLIGPU_E2E:-1}" = 0 ]; then
        skip "MILLIGPU_E2E=0"
    fi
    export PATH="$PATH:/usr/local/go/bin"
    command -v go >/dev/null ||
        skip "no Go here, and the real control plane is built from Go modules"
    scripts/install-deps.sh --controlplane
    [ -e /dev/nvidiactl ] || echo "skipped: the tests of a real GPU, since this machine has none"
    tests/controlplane/run
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

RESULTS=()
PASSED=0
FAILED=0

run_step() { # name
    local name=$1 start=$SECONDS rc word
    printf '\n==== %s\n' "$name"
    (
        set -euo pipefail
        "step_$name"
    )
    rc=$?
    word=passed
    if [ $rc = $SKIP ] && [ "${CI:-}" != true ]; then
        word=skipped
    elif [ $rc = 0 ]; then
        PASSED=$((PASSED + 1))
    else
        word=FAILED
        FAILED=$((FAILED + 1))
    fi
    RESULTS+=("$(printf '%-14s %-8s %5d s' "$name" "$word" $((SECONDS - start)))")
}

main() {
    local name
    local -a steps=("${@:-${QUICK[@]}}")
    if [ "${steps[*]}" = all ]; then
        steps=("${STEPS[@]}")
    fi
    for name in "${steps[@]}"; do
        if ! declare -F "step_$name" >/dev/null; then
            echo "test.sh: no step is called $name; there are: all ${STEPS[*]}" >&2
            exit 2
        fi
    done
    mkdir -p build
    for name in "${steps[@]}"; do
        run_step "$name"
    done
    printf '\n'
    printf '%s\n' "${RESULTS[@]}"
    printf '%d passed, %d failed\n' $PASSED $FAILED
    [ $FAILED = 0 ]
}

main "$@"
