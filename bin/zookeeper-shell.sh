#!/bin/sh
# Looks into ZooKeeper and changes it: a prompt, or one command from the arguments.
if [ $# -lt 1 ]; then
    echo "USAGE: $0 zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]"
    exit 1
fi
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" zookeeper-shell "$@"
