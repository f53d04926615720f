#!/bin/sh
# Runs the program itself: bin/ottla.sh dev starts ZooKeeper and brokers in one process. Its commands: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" "$@"
