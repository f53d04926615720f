#!/bin/sh
# Drops the records of partitions before given offsets. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-delete-records "$@"
