#!/bin/sh
# Sends each line of standard input as a record. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-console-producer "$@"
