#!/bin/sh
# Prints the records of a topic, one a line. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-console-consumer "$@"
