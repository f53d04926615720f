#!/bin/sh
# Asks every broker on this machine, or with --node-id=N the one whose properties file has broker.id=N, to shut down cleanly.
# SIGNAL names another signal than TERM.
node=
for argument; do
    case $argument in
        --node-id=*) node=${argument#*=} ;;
        --process-role=broker) ;;
        --process-role=*) echo "No kafka server to stop" && exit 1 ;; # with ZooKeeper there is no other role
        *) echo "USAGE: $0 [--process-role=broker] [--node-id=N]" && exit 1 ;;
    esac
done
. "$(dirname -- "$(readlink -f -- "$0")")/servers.sh"

# has_id PID N   whether the properties file that the broker was started with, or an --override after it, gives it that id.
has_id() {
    file=$(tr '\0' '\n' <"/proc/$1/cmdline" | sed -n 3p)
    { (cd "/proc/$1/cwd" && cat -- "$file") && tr '\0' '\n' <"/proc/$1/cmdline"; } 2>/dev/null |
        sed -n 's/^[[:space:]]*broker\.id[[:space:]]*[=:][[:space:]]*\([0-9]*\)[[:space:]]*$/\1/p' | tail -n 1 | grep -qx -- "$2"
}

stopped=
for pid in $(server_pids broker); do
    if [ -z "$node" ] || has_id "$pid" "$node"; then
        kill -s "${SIGNAL:-TERM}" "$pid" && stopped=1
    fi
done
if [ -z "$stopped" ]; then
    echo "No kafka server to stop"
    exit 1
fi
