#!/bin/sh
# Asks every `ottla zookeeper` on this machine to shut down. SIGNAL names another signal than TERM.
. "$(dirname -- "$(readlink -f -- "$0")")/servers.sh"
stopped=
for pid in $(server_pids zookeeper); do
    kill -s "${SIGNAL:-TERM}" "$pid" && stopped=1
done
if [ -z "$stopped" ]; then
    echo "No zookeeper server to stop"
    exit 1
fi
