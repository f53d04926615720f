#!/bin/sh
# Measures how fast records can be sent. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-producer-perf-test "$@"
