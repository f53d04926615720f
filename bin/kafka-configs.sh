#!/bin/sh
# Shows and changes configurations of topics, brokers and their loggers. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-configs "$@"
