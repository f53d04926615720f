#!/bin/sh
# Shows what log segments, indexes and snapshots hold. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-dump-log "$@"
