#!/bin/sh
# Starts the single ZooKeeper server for development. The JVM's KAFKA_HEAP_OPTS, KAFKA_OPTS and the like may be set; they mean nothing here.
daemon=
if [ "${1:-}" = -daemon ]; then
    daemon=1
    shift
fi
if [ $# -lt 1 ]; then
    echo "USAGE: $0 [-daemon] zookeeper.properties"
    exit 1
fi
here=$(dirname -- "$(readlink -f -- "$0")")
. "$here/find-ottla.sh"
. "$here/servers.sh"
start_server zookeeper zookeeper "$@"
