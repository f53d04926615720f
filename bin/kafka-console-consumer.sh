#!/bin/sh
# Prints the records of a topic, one a line. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/ottla.sh"
exec "$OTTLA" kafka-console-consumer "$@"
