#!/bin/sh
# Every check that the project has, in the order in which they fail soonest. Brings what it needs, or says by name what it skips.
# The last line is `N passed, N failed, N skipped`; the exit status is 0 only if nothing failed.
set -u

home=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
cd "$home" || exit 1

phases='format scripts codegen tidy clippy unit build clients process interop'

usage() {
    cat <<MESSAGE
USAGE: $0 [--only PHASE]... [--list]

  format   cargo fmt
  scripts  shellcheck on every shell script
  codegen  the message code is what the schemas say
  tidy     the map of the repository is true
  clippy   no warning anywhere
  unit     cargo test --workspace
  build    the program, as it is released
  clients  fetches the foreign clients that the next two run (tests/interop/install.sh)
  process  real processes: scripts, starts and ends, tools, kill -9
  interop  kcat, confluent-kafka, kafka-python, kazoo, Apache's Java clients from 0.8 on

process and interop listen to PYTEST_ADDOPTS, for example PYTEST_ADDOPTS='-x -k kcat'.
MESSAGE
}

only=
while [ $# -gt 0 ]; do
    case $1 in
        --only)
            case " $phases " in *" ${2:-} "*) only="$only ${2:-}" ;; *) usage >&2 && exit 1 ;; esac
            shift
            ;;
        --list) printf '%s\n' $phases && exit 0 ;;
        --help) usage && exit 0 ;;
        *) usage >&2 && exit 1 ;;
    esac
    shift
done

work=$(mktemp -d)
child=
finish() {
    [ -z "$child" ] || kill "$child" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

passed=0
failed=0
skipped=0
failures=

# A phase that cannot be done here says why and returns this.
cannot=77

format() { cargo fmt --all --check; }
codegen() { cargo xtask codegen --check; }
tidy() { cargo xtask tidy; }
clippy() { cargo clippy --workspace --all-targets --locked -- -D warnings; }
unit() { cargo test --workspace --locked --no-fail-fast; }
build() { cargo build --release --locked --package ottla-console; }
clients() { tests/interop/install.sh; }
process() { pytest_on tests/process; }
interop() { pytest_on tests/interop; }

scripts() {
    if ! command -v shellcheck >/dev/null; then
        [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null &&
            echo "apt-get install shellcheck" && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq shellcheck >/dev/null 2>&1
        command -v shellcheck >/dev/null || { echo "shellcheck is not on this machine and cannot be installed" && return $cannot; }
    fi
    shellcheck --shell=sh --severity=warning --external-sources --source-path=bin bin/kafka-*.sh bin/zookeeper-*.sh bin/ottla.sh bin/quickstart.sh bin/test.sh tests/interop/install.sh .ci/run
}

pytest_on() {
    python=tests/interop/.cache/venv/bin/python
    [ -x $python ] || python=python3
    $python -c 'import pytest' 2>/dev/null || { echo "pytest is not here: $(cat tests/interop/.cache/*.missing 2>/dev/null)" && return $cannot; }
    OTTLA_BIN=${OTTLA_BIN:-$home/target/release/ottla} $python -m pytest -c tests/pytest.ini "$@"
}

# Adds up the closing lines of cargo test and pytest in a log: "passed failed skipped".
counted() {
    awk '
        /^test result: / || /^=* ?[0-9]+ [a-z, 0-9]* in [0-9.]+s/ {
            line = $0
            while (match(line, /[0-9]+ (passed|failed|errors?|skipped|ignored)/)) {
                split(substr(line, RSTART, RLENGTH), found, " ")
                count[found[2]] += found[1]
                line = substr(line, RSTART + RLENGTH)
            }
        }
        END { print count["passed"] + 0, count["failed"] + count["error"] + count["errors"] + 0, count["skipped"] + count["ignored"] + 0 }
    ' "$1"
}

seconds_since() { echo $(($(date +%s) - $1)); }

run_phase() {
    phase=$1
    echo "=== $phase"
    begun=$(date +%s)
    mkfifo "$work/output"
    tee "$work/$phase.log" <"$work/output" &
    shown=$!
    "$phase" >"$work/output" 2>&1 </dev/null &
    child=$!
    wait "$child"
    status=$?
    child=
    wait "$shown"
    rm "$work/output"
    # shellcheck disable=SC2046 # three words are wanted
    set -- $(counted "$work/$phase.log")
    if [ "$status" -eq $cannot ]; then
        skipped=$((skipped + 1))
        outcome="skipped: $(tail -n 1 "$work/$phase.log")"
    elif [ "$status" -ne 0 ]; then
        failures="$failures $phase"
        outcome="$2 failed"
        [ "$2" -gt 0 ] || { failed=$((failed + 1)) && outcome="failed with status $status"; } # not in a test, but before or beside them
    elif [ "$1" -gt 0 ]; then
        outcome="$1 passed"
    else
        passed=$((passed + 1))
        outcome=passed
    fi
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
    echo "=== $phase: $outcome, in $(seconds_since "$begun") s"
}

if ! command -v cargo >/dev/null; then
    echo "cargo is missing. Install Rust with rustup (https://rustup.rs) and run this again." >&2
    exit 1
fi
if ! command -v cc >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    echo "apt-get install gcc libc6-dev (Rust links with cc)"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev >/dev/null
fi

begun_all=$(date +%s)
for phase in ${only:-$phases}; do
    run_phase "$phase"
done
echo "=== all in $(seconds_since "$begun_all") s${failures:+; failed:$failures}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
