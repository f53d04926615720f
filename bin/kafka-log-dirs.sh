#!/bin/sh
# Shows the log directories of brokers, and what lies in them. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-log-dirs "$@"
