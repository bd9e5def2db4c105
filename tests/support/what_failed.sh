# what_failed.sh - the lines of a log that say what failed, for its end, since its middle may be cut. Source it.

what_failed() { # LOG LINES: the last of these lines, or of the log if none says what failed
    signs='^(FAIL|ERROR|violation|replay|Error|[A-Za-z.]*Error): |\*\*\*|FAILED' # unittest, ctest, the simulator
    signs="$signs"'|^ *--- FAIL|^ +[a-z_]+_test\.go:[0-9]+:|^panic'               # go test
    signs="$signs"'|^[^ ]*:[0-9]+:[0-9]*:? (fatal )?error:'                       # compilers
    { grep -aE "$signs" "$1" || tail -n 5 "$1"; } | tail -n "$2" | cut -c 1-300
}
