#!/bin/sh
# Creates a topic by writing it to ZooKeeper, as Kafka 0.8.0's tool did. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-create-topic "$@"
