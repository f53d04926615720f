#!/bin/sh
# Creates, lists, describes, alters and deletes topics. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-topics "$@"
