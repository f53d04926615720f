#!/bin/sh
# From a fresh clone to a file that went through a broker and came back, in one command. Exits 0 only if every byte is the same.
set -eu

usage() {
    cat <<MESSAGE
USAGE: $0 [--keep] [--file FILE]
       $0 --stop FOLDER

  --keep         leave ZooKeeper, the broker and the topic as they are, and say how to use and stop them
  --file FILE    the text file to send, by lines (default: LICENSE)
  --stop FOLDER  stop what --keep has left running with everything in that folder, and remove the folder

Builds Ottla unless OTTLA_BIN names a program. Changes nothing outside target/ and a new folder in \${TMPDIR:-/tmp}.
MESSAGE
}

bin=$(dirname -- "$(readlink -f -- "$0")")
home=$(dirname -- "$bin")
keep=
kept=
file=$home/LICENSE
while [ $# -gt 0 ]; do
    case $1 in
        --keep) keep=1 ;;
        --file) file=${2:?--file needs a file} && shift ;;
        --stop) kept=${2:?--stop needs the folder that --keep has named} && shift ;;
        --help) usage && exit 0 ;;
        *) usage >&2 && exit 1 ;;
    esac
    shift
done

work=
zookeeper_pid=
broker_pid=
say() { echo "==> $*"; }
fail() { echo "quickstart failed: $*" >&2 && exit 1; }

runs() { # PID
    kill -0 "$1" 2>/dev/null && ! grep -q '^State:.*zombie' "/proc/$1/status" 2>/dev/null
}

stop() { # NAME PID
    [ -n "$2" ] && kill "$2" 2>/dev/null || return 0
    say "stopping $1 (process $2)"
    # A server that ends by SIGTERM reports 143, as Kafka's does; one that another run left here is not ours to wait for.
    wait "$2" 2>/dev/null || true
    tries=300
    while runs "$2"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "$1 (process $2) does not stop"
        sleep 0.1
    done
}

if [ -n "$kept" ]; then
    [ -r "$kept/processes" ] || fail "nothing was left running in $kept"
    read -r broker_pid zookeeper_pid <"$kept/processes"
    stop "the broker" "$broker_pid" # while it can still say goodbye to ZooKeeper
    stop ZooKeeper "$zookeeper_pid"
    rm -r "$kept"
    exit 0
fi

finish() {
    status=$?
    trap - EXIT
    if [ "$status" -ne 0 ] && [ -n "$work" ]; then
        for output in "$work"/*.out; do
            [ ! -f "$output" ] || { echo "--- the end of $output" && tail -n 20 "$output"; } >&2
        done
    fi
    if [ -z "$keep" ] || [ "$status" -ne 0 ]; then
        stop "the broker" "$broker_pid"
        stop ZooKeeper "$zookeeper_pid"
        [ -z "$work" ] || rm -rf "$work"
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Whether something listens on the port, read from the kernel's table where there is one.
taken() {
    if [ -r /proc/net/tcp ]; then
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
            awk -v port=":$(printf '%04X' "$1")" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }'
    else
        nc -z 127.0.0.1 "$1" 2>/dev/null
    fi
}

# The port wanted, or the next hundred's that is free.
free_port() {
    port=$1
    while taken "$port"; do
        port=$((port + 100))
        [ "$port" -lt 65000 ] || fail "no free port near $1"
    done
    echo "$port"
}

# await WHAT PID COMMAND...   tries the command ten times a second until it succeeds, the process is gone, or 30 seconds are over.
await() {
    what=$1
    pid=$2
    shift 2
    tries=300
    until "$@" >/dev/null 2>&1; do
        kill -0 "$pid" 2>/dev/null || fail "$what ended while it started"
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "$what did not answer in 30 seconds"
        sleep 0.1
    done
}

[ -f "$file" ] || fail "no such file: $file"

if [ -z "${OTTLA_BIN:-}" ]; then
    command -v cargo >/dev/null || fail "cargo is missing. Install Rust with rustup (https://rustup.rs) and run this again."
    command -v cc >/dev/null || fail "cc is missing: Rust links with it. On Debian: apt-get install gcc libc6-dev"
    say "building: cargo build --release (minutes the first time)"
    (cd "$home" && cargo build --release --package ottla-console)
    OTTLA_BIN=$home/target/release/ottla
    export OTTLA_BIN
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/ottla-quickstart.XXXXXX")
zookeeper=127.0.0.1:$(free_port 2181)
broker=127.0.0.1:$(free_port 9092)
LOG_DIR=$work/logs
export LOG_DIR

say "starting ZooKeeper on $zookeeper, from config/zookeeper.properties, its data in $work/zookeeper"
sed -e "s|^dataDir=.*|dataDir=$work/zookeeper|" -e "s|^clientPort=.*|clientPort=${zookeeper#*:}|" \
    "$home/config/zookeeper.properties" >"$work/zookeeper.properties"
nohup "$bin/zookeeper-server-start.sh" "$work/zookeeper.properties" >"$work/zookeeper.out" 2>&1 </dev/null &
zookeeper_pid=$!
await ZooKeeper "$zookeeper_pid" taken "${zookeeper#*:}"

say "starting a broker on $broker, from config/server.properties, its data in $work/kafka-logs"
nohup "$bin/kafka-server-start.sh" "$home/config/server.properties" --override "listeners=PLAINTEXT://$broker" \
    --override "log.dir=$work/kafka-logs" --override "zookeeper.connect=$zookeeper" >"$work/broker.out" 2>&1 </dev/null &
broker_pid=$!
await "the broker" "$broker_pid" grep -q 'KafkaServer id=0\] started' "$work/broker.out"

say "kafka-topics.sh --bootstrap-server $broker --create --topic quickstart"
"$bin/kafka-topics.sh" --bootstrap-server "$broker" --create --topic quickstart --partitions 1 --replication-factor 1

lines=$(grep -c '' "$file") || fail "$file is empty: nothing to send"
say "kafka-console-producer.sh --bootstrap-server $broker --topic quickstart <$file   ($lines lines)"
"$bin/kafka-console-producer.sh" --bootstrap-server "$broker" --topic quickstart <"$file"

say "kafka-console-consumer.sh --bootstrap-server $broker --topic quickstart --from-beginning --max-messages $lines"
"$bin/kafka-console-consumer.sh" --bootstrap-server "$broker" --topic quickstart --from-beginning --max-messages "$lines" \
    --timeout-ms 30000 >"$work/received"
cmp "$file" "$work/received" || fail "what came back is not what was sent"
say "all $lines lines came back, every byte the same"

say "kafka-list-topic.sh --zookeeper $zookeeper --topic quickstart"
"$bin/kafka-list-topic.sh" --zookeeper "$zookeeper" --topic quickstart

if [ -n "$keep" ]; then
    echo "$broker_pid $zookeeper_pid" >"$work/processes"
    cat <<MESSAGE
==> left running, with everything in $work
    type into one terminal:   $bin/kafka-console-producer.sh --bootstrap-server $broker --topic quickstart
    and watch in another:     $bin/kafka-console-consumer.sh --bootstrap-server $broker --topic quickstart --from-beginning
    or use any Kafka client:  bootstrap server $broker, ZooKeeper $zookeeper
    to stop it:               $bin/quickstart.sh --stop $work
MESSAGE
fi
