#!/bin/sh
# Measures how fast records can be read. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-consumer-perf-test "$@"
