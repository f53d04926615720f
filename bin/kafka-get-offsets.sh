#!/bin/sh
# Shows offsets of partitions, by place or time. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-get-offsets "$@"
