#!/bin/sh
# Lists the partitions of topics, their leaders, replicas and ISR, from ZooKeeper, as Kafka 0.8.0's tool did. Options: --help
. "$(dirname -- "$(readlink -f -- "$0")")/find-ottla.sh"
exec "$OTTLA" kafka-list-topic "$@"
