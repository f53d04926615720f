#!/bin/sh
# Shows which versions of which APIs the brokers serve. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-broker-api-versions "$@"
