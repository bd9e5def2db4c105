# check.sh - for tests in shell: a line for each sentence that holds or not. Source it after `work` is set.
# At the end: exit $failed
failed=0

check() { # SENTENCE COMMAND...
    if "${@:2}" >"$work/out" 2>&1; then
        echo "ok - $1"
    else
        echo "not ok - $1"
        tail -n 40 "$work/out" | sed 's/^/    /'
        failed=1
    fi
}
