//! The protocol's error codes.

/// Declares the codes: number, variant, Kafka's name, what a client should do, and the sentence for people.
macro_rules! error_codes {
    ($($code:literal $variant:ident $name:literal $reaction:ident $message:literal;)*) => {
        /// What a broker answers where a request, or a part of it, went wrong.
        ///
        /// Numbers and names are Kafka 3.9's; 99 was never given out. Kafka 0.8.0 knows -1 to 11, 0.8.2 up to 20, and its
        /// clients take every other for a general failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = $message] $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code, by number.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant),*];

            /// `None` for a code that a later release has added.
            pub const fn from_i16(code: i16) -> Option<ErrorCode> {
                match code {
                    $($code => Some(ErrorCode::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's name, such as `NOT_LEADER_OR_FOLLOWER`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $name,)*
                }
            }

            /// What went wrong, for a person.
            pub const fn message(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $message,)*
                }
            }

            const fn reaction(self) -> Reaction {
                match self {
                    $(ErrorCode::$variant => Reaction::$reaction,)*
                }
            }
        }
    };
}

/// What a client does on seeing the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    GiveUp,
    Retry,
    RefreshAndRetry,
}

impl ErrorCode {
    /// Whether the same request can succeed later.
    pub const fn is_retriable(self) -> bool {
        matches!(self.reaction(), Reaction::Retry | Reaction::RefreshAndRetry)
    }

    /// Whether the client's picture of topics and leaders is out of date.
    pub const fn is_stale_metadata(self) -> bool {
        matches!(self.reaction(), Reaction::RefreshAndRetry)
    }

    pub const fn is_error(self) -> bool {
        !matches!(self, ErrorCode::None)
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> i16 {
        code as i16
    }
}

/// Name and sentence: `NOT_CONTROLLER: another broker is the controller`.
impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name(), self.message())
    }
}

error_codes! {
    -1 UnknownServerError "UNKNOWN_SERVER_ERROR" GiveUp "the broker failed in a way it did not foresee; its log says more";
    0 None "NONE" GiveUp "success";
    1 OffsetOutOfRange "OFFSET_OUT_OF_RANGE" GiveUp "the offset is outside what the partition holds";
    2 CorruptMessage "CORRUPT_MESSAGE" Retry "a record is damaged: wrong checksum, wrong size, or a null key in a compacted topic";
    3 UnknownTopicOrPartition "UNKNOWN_TOPIC_OR_PARTITION" RefreshAndRetry "this broker does not host such a topic or partition";
    4 InvalidFetchSize "INVALID_FETCH_SIZE" GiveUp "the fetch asks for less than one byte";
    5 LeaderNotAvailable "LEADER_NOT_AVAILABLE" RefreshAndRetry "the partition has no leader just now; an election is due";
    6 NotLeaderOrFollower "NOT_LEADER_OR_FOLLOWER" RefreshAndRetry "this broker is not the leader, or for a fetch not even a replica, of the partition";
    7 RequestTimedOut "REQUEST_TIMED_OUT" Retry "the time allowed for the request ran out";
    8 BrokerNotAvailable "BROKER_NOT_AVAILABLE" GiveUp "that broker is not there";
    9 ReplicaNotAvailable "REPLICA_NOT_AVAILABLE" RefreshAndRetry "that replica is not there";
    10 MessageTooLarge "MESSAGE_TOO_LARGE" GiveUp "the record batch is larger than the topic allows";
    11 StaleControllerEpoch "STALE_CONTROLLER_EPOCH" GiveUp "the order comes from a controller that has been replaced";
    12 OffsetMetadataTooLarge "OFFSET_METADATA_TOO_LARGE" GiveUp "the metadata beside a committed offset is longer than offset.metadata.max.bytes";
    13 NetworkException "NETWORK_EXCEPTION" RefreshAndRetry "the connection broke before an answer came";
    14 CoordinatorLoadInProgress "COORDINATOR_LOAD_IN_PROGRESS" Retry "the coordinator is still reading its state; ask again";
    15 CoordinatorNotAvailable "COORDINATOR_NOT_AVAILABLE" Retry "the coordinator is not there yet; ask again";
    16 NotCoordinator "NOT_COORDINATOR" Retry "another broker coordinates this group or transaction";
    17 InvalidTopicException "INVALID_TOPIC_EXCEPTION" GiveUp "no topic may have that name, or clients may not write to it";
    18 RecordListTooLarge "RECORD_LIST_TOO_LARGE" GiveUp "the batches together are larger than one segment";
    19 NotEnoughReplicas "NOT_ENOUGH_REPLICAS" Retry "fewer replicas are in sync than min.insync.replicas asks for; nothing was written";
    20 NotEnoughReplicasAfterAppend "NOT_ENOUGH_REPLICAS_AFTER_APPEND" Retry "the records were written, but on fewer replicas than min.insync.replicas asks for";
    21 InvalidRequiredAcks "INVALID_REQUIRED_ACKS" GiveUp "acks can be 0, 1 or -1 (all)";
    22 IllegalGeneration "ILLEGAL_GENERATION" GiveUp "the group has moved on to another generation";
    23 InconsistentGroupProtocol "INCONSISTENT_GROUP_PROTOCOL" GiveUp "the member has no assignment protocol in common with its group, or another protocol type";
    24 InvalidGroupId "INVALID_GROUP_ID" GiveUp "no group may have that id";
    25 UnknownMemberId "UNKNOWN_MEMBER_ID" GiveUp "the group has no such member; join again";
    26 InvalidSessionTimeout "INVALID_SESSION_TIMEOUT" GiveUp "the session timeout is outside what the broker allows";
    27 RebalanceInProgress "REBALANCE_IN_PROGRESS" GiveUp "the group is rebalancing; join again";
    28 InvalidCommitOffsetSize "INVALID_COMMIT_OFFSET_SIZE" GiveUp "the committed offsets do not fit into one batch";
    29 TopicAuthorizationFailed "TOPIC_AUTHORIZATION_FAILED" GiveUp "not allowed to do this to the topic";
    30 GroupAuthorizationFailed "GROUP_AUTHORIZATION_FAILED" GiveUp "not allowed to do this to the group";
    31 ClusterAuthorizationFailed "CLUSTER_AUTHORIZATION_FAILED" GiveUp "not allowed to do this to the cluster";
    32 InvalidTimestamp "INVALID_TIMESTAMP" GiveUp "the record's timestamp is further from the broker's clock than the topic allows";
    33 UnsupportedSaslMechanism "UNSUPPORTED_SASL_MECHANISM" GiveUp "the broker does not offer this SASL mechanism";
    34 IllegalSaslState "ILLEGAL_SASL_STATE" GiveUp "this request is not the next step of SASL authentication";
    35 UnsupportedVersion "UNSUPPORTED_VERSION" GiveUp "the broker does not speak this version of the request";
    36 TopicAlreadyExists "TOPIC_ALREADY_EXISTS" GiveUp "the topic exists already";
    37 InvalidPartitions "INVALID_PARTITIONS" GiveUp "that number of partitions is not possible here";
    38 InvalidReplicationFactor "INVALID_REPLICATION_FACTOR" GiveUp "the replication factor is below 1 or above the number of live brokers";
    39 InvalidReplicaAssignment "INVALID_REPLICA_ASSIGNMENT" GiveUp "the replica assignment does not fit the brokers or the partitions";
    40 InvalidConfig "INVALID_CONFIG" GiveUp "a configuration value is not allowed";
    41 NotController "NOT_CONTROLLER" Retry "another broker is the controller";
    42 InvalidRequest "INVALID_REQUEST" GiveUp "the request's fields contradict each other or the protocol; the broker's log says more";
    43 UnsupportedForMessageFormat "UNSUPPORTED_FOR_MESSAGE_FORMAT" GiveUp "the record format of the stored data cannot do this";
    44 PolicyViolation "POLICY_VIOLATION" GiveUp "the request breaks a rule that the operator has set";
    45 OutOfOrderSequenceNumber "OUT_OF_ORDER_SEQUENCE_NUMBER" GiveUp "the producer's sequence numbers have a gap";
    46 DuplicateSequenceNumber "DUPLICATE_SEQUENCE_NUMBER" GiveUp "the producer has sent this sequence number before";
    47 InvalidProducerEpoch "INVALID_PRODUCER_EPOCH" GiveUp "a newer producer with the same id has taken over";
    48 InvalidTxnState "INVALID_TXN_STATE" GiveUp "the transaction is not in a state in which this can be done";
    49 InvalidProducerIdMapping "INVALID_PRODUCER_ID_MAPPING" GiveUp "the producer id does not belong to this transactional id";
    50 InvalidTransactionTimeout "INVALID_TRANSACTION_TIMEOUT" GiveUp "the transaction timeout is above transaction.max.timeout.ms";
    51 ConcurrentTransactions "CONCURRENT_TRANSACTIONS" Retry "another step of this transaction is still under way; ask again";
    52 TransactionCoordinatorFenced "TRANSACTION_COORDINATOR_FENCED" GiveUp "the transaction coordinator that sent this has been replaced";
    53 TransactionalIdAuthorizationFailed "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" GiveUp "not allowed to use the transactional id";
    54 SecurityDisabled "SECURITY_DISABLED" GiveUp "no authorizer is configured on the broker";
    55 OperationNotAttempted "OPERATION_NOT_ATTEMPTED" GiveUp "not tried, because another part of the request failed";
    56 KafkaStorageError "KAFKA_STORAGE_ERROR" RefreshAndRetry "the disk under the partition failed; the log directory may be offline";
    57 LogDirNotFound "LOG_DIR_NOT_FOUND" GiveUp "the broker has no such log directory";
    58 SaslAuthenticationFailed "SASL_AUTHENTICATION_FAILED" GiveUp "authentication failed";
    59 UnknownProducerId "UNKNOWN_PRODUCER_ID" GiveUp "the broker holds nothing from this producer id any more";
    60 ReassignmentInProgress "REASSIGNMENT_IN_PROGRESS" GiveUp "a reassignment of the partition is under way";
    61 DelegationTokenAuthDisabled "DELEGATION_TOKEN_AUTH_DISABLED" GiveUp "delegation tokens are not enabled on the broker";
    62 DelegationTokenNotFound "DELEGATION_TOKEN_NOT_FOUND" GiveUp "there is no such delegation token";
    63 DelegationTokenOwnerMismatch "DELEGATION_TOKEN_OWNER_MISMATCH" GiveUp "the delegation token belongs to somebody else";
    64 DelegationTokenRequestNotAllowed "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" GiveUp "delegation tokens are not available over plaintext or to token holders";
    65 DelegationTokenAuthorizationFailed "DELEGATION_TOKEN_AUTHORIZATION_FAILED" GiveUp "not allowed to use the delegation token";
    66 DelegationTokenExpired "DELEGATION_TOKEN_EXPIRED" GiveUp "the delegation token has expired";
    67 InvalidPrincipalType "INVALID_PRINCIPAL_TYPE" GiveUp "that type of principal is not supported here";
    68 NonEmptyGroup "NON_EMPTY_GROUP" GiveUp "the group still has members";
    69 GroupIdNotFound "GROUP_ID_NOT_FOUND" GiveUp "there is no such group";
    70 FetchSessionIdNotFound "FETCH_SESSION_ID_NOT_FOUND" Retry "the broker has dropped the fetch session; the next fetch opens another";
    71 InvalidFetchSessionEpoch "INVALID_FETCH_SESSION_EPOCH" Retry "the fetch session is at another epoch";
    72 ListenerNotFound "LISTENER_NOT_FOUND" RefreshAndRetry "the leader has no listener of the name that the request came in on";
    73 TopicDeletionDisabled "TOPIC_DELETION_DISABLED" GiveUp "the brokers do not allow topics to be deleted (delete.topic.enable)";
    74 FencedLeaderEpoch "FENCED_LEADER_EPOCH" RefreshAndRetry "the leader epoch in the request is behind the broker's";
    75 UnknownLeaderEpoch "UNKNOWN_LEADER_EPOCH" Retry "the leader epoch in the request is ahead of the broker's";
    76 UnsupportedCompressionType "UNSUPPORTED_COMPRESSION_TYPE" GiveUp "this request version cannot carry batches of that compression type";
    77 StaleBrokerEpoch "STALE_BROKER_EPOCH" GiveUp "the broker epoch belongs to an earlier life of the broker";
    78 OffsetNotAvailable "OFFSET_NOT_AVAILABLE" Retry "the new leader's high watermark has yet to catch up; ask again";
    79 MemberIdRequired "MEMBER_ID_REQUIRED" GiveUp "the member has been given an id and joins again with it";
    80 PreferredLeaderNotAvailable "PREFERRED_LEADER_NOT_AVAILABLE" RefreshAndRetry "the preferred leader is not there";
    81 GroupMaxSizeReached "GROUP_MAX_SIZE_REACHED" GiveUp "the group has as many members as group.max.size allows";
    82 FencedInstanceId "FENCED_INSTANCE_ID" GiveUp "another member with the same group.instance.id has taken over";
    83 EligibleLeadersNotAvailable "ELIGIBLE_LEADERS_NOT_AVAILABLE" RefreshAndRetry "none of the replicas that could lead is alive";
    84 ElectionNotNeeded "ELECTION_NOT_NEEDED" RefreshAndRetry "the partition has the leader that it should have";
    85 NoReassignmentInProgress "NO_REASSIGNMENT_IN_PROGRESS" GiveUp "no reassignment is under way";
    86 GroupSubscribedToTopic "GROUP_SUBSCRIBED_TO_TOPIC" GiveUp "the group is subscribed to the topic";
    87 InvalidRecord "INVALID_RECORD" GiveUp "a record breaks a rule of its topic, so the batch was refused";
    88 UnstableOffsetCommit "UNSTABLE_OFFSET_COMMIT" Retry "some of the offsets wait for the outcome of a transaction; ask again";
    89 ThrottlingQuotaExceeded "THROTTLING_QUOTA_EXCEEDED" Retry "the quota for such changes is used up; ask again later";
    90 ProducerFenced "PRODUCER_FENCED" GiveUp "a newer producer with the same transactional id has taken over";
    91 ResourceNotFound "RESOURCE_NOT_FOUND" GiveUp "there is no such resource";
    92 DuplicateResource "DUPLICATE_RESOURCE" GiveUp "the resource exists already, or is named twice";
    93 UnacceptableCredential "UNACCEPTABLE_CREDENTIAL" GiveUp "the credential does not meet the requirements";
    94 InconsistentVoterSet "INCONSISTENT_VOTER_SET" GiveUp "the voters named are not those of the quorum";
    95 InvalidUpdateVersion "INVALID_UPDATE_VERSION" GiveUp "the feature version is not one it can be set to";
    96 FeatureUpdateFailed "FEATURE_UPDATE_FAILED" GiveUp "the finalized features could not be changed";
    97 PrincipalDeserializationFailure "PRINCIPAL_DESERIALIZATION_FAILURE" GiveUp "the forwarded principal cannot be read";
    98 SnapshotNotFound "SNAPSHOT_NOT_FOUND" GiveUp "there is no such snapshot";
    100 UnknownTopicId "UNKNOWN_TOPIC_ID" RefreshAndRetry "this broker hosts no topic of that id";
    101 DuplicateBrokerRegistration "DUPLICATE_BROKER_REGISTRATION" GiveUp "another live broker has registered with this id";
    102 BrokerIdNotRegistered "BROKER_ID_NOT_REGISTERED" GiveUp "no broker has registered with that id";
    103 InconsistentTopicId "INCONSISTENT_TOPIC_ID" RefreshAndRetry "the topic id is not the one that the broker's log was made for";
    104 InconsistentClusterId "INCONSISTENT_CLUSTER_ID" GiveUp "the request is for another cluster";
    105 TransactionalIdNotFound "TRANSACTIONAL_ID_NOT_FOUND" GiveUp "there is no such transactional id";
    106 FetchSessionTopicIdError "FETCH_SESSION_TOPIC_ID_ERROR" Retry "the fetch session was opened with topic names and goes on with topic ids, or the other way round";
    107 IneligibleReplica "INELIGIBLE_REPLICA" GiveUp "a replica named for the ISR is not eligible for it";
    108 NewLeaderElected "NEW_LEADER_ELECTED" GiveUp "the partition got a new leader while its ISR changed";
    109 OffsetMovedToTieredStorage "OFFSET_MOVED_TO_TIERED_STORAGE" GiveUp "the offset is in tiered storage by now";
    110 FencedMemberEpoch "FENCED_MEMBER_EPOCH" GiveUp "the member's epoch is behind the group's; join again";
    111 UnreleasedInstanceId "UNRELEASED_INSTANCE_ID" GiveUp "another member still holds this group.instance.id";
    112 UnsupportedAssignor "UNSUPPORTED_ASSIGNOR" GiveUp "the coordinator has no such assignor";
    113 StaleMemberEpoch "STALE_MEMBER_EPOCH" GiveUp "the member's epoch is behind; commit again with the new one";
    114 MismatchedEndpointType "MISMATCHED_ENDPOINT_TYPE" GiveUp "the request is for the other kind of endpoint, broker or controller";
    115 UnsupportedEndpointType "UNSUPPORTED_ENDPOINT_TYPE" GiveUp "this kind of endpoint is not available";
    116 UnknownControllerId "UNKNOWN_CONTROLLER_ID" GiveUp "there is no controller of that id";
    117 UnknownSubscriptionId "UNKNOWN_SUBSCRIPTION_ID" GiveUp "the telemetry subscription has changed; ask for it again";
    118 TelemetryTooLarge "TELEMETRY_TOO_LARGE" GiveUp "the telemetry is larger than the broker takes";
    119 InvalidRegistration "INVALID_REGISTRATION" GiveUp "the broker's registration contradicts the cluster's";
    120 TransactionAbortable "TRANSACTION_ABORTABLE" GiveUp "the transaction failed and has to be aborted";
    121 InvalidRecordState "INVALID_RECORD_STATE" GiveUp "the record is not in a state in which this can be done";
    122 ShareSessionNotFound "SHARE_SESSION_NOT_FOUND" Retry "there is no such share session; the next fetch opens another";
    123 InvalidShareSessionEpoch "INVALID_SHARE_SESSION_EPOCH" Retry "the share session is at another epoch";
    124 FencedStateEpoch "FENCED_STATE_EPOCH" GiveUp "the share coordinator has moved on to another state epoch";
    125 InvalidVoterKey "INVALID_VOTER_KEY" GiveUp "the voter key does not fit the receiving replica";
    126 DuplicateVoter "DUPLICATE_VOTER" GiveUp "the voter is a member of the quorum already";
    127 VoterNotFound "VOTER_NOT_FOUND" GiveUp "the voter is not a member of the quorum";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_reactions_are_kafkas() {
        for (number, code, name, retriable, stale) in [
            (-1, ErrorCode::UnknownServerError, "UNKNOWN_SERVER_ERROR", false, false),
            (0, ErrorCode::None, "NONE", false, false),
            (6, ErrorCode::NotLeaderOrFollower, "NOT_LEADER_OR_FOLLOWER", true, true),
            (14, ErrorCode::CoordinatorLoadInProgress, "COORDINATOR_LOAD_IN_PROGRESS", true, false),
            (17, ErrorCode::InvalidTopicException, "INVALID_TOPIC_EXCEPTION", false, false),
            (35, ErrorCode::UnsupportedVersion, "UNSUPPORTED_VERSION", false, false),
            (98, ErrorCode::SnapshotNotFound, "SNAPSHOT_NOT_FOUND", false, false),
            (100, ErrorCode::UnknownTopicId, "UNKNOWN_TOPIC_ID", true, true),
            (127, ErrorCode::VoterNotFound, "VOTER_NOT_FOUND", false, false),
        ] {
            assert_eq!(ErrorCode::from_i16(number), Some(code));
            assert_eq!(code.name(), name);
            assert_eq!((code.is_retriable(), code.is_stale_metadata()), (retriable, stale), "{name}");
        }
    }

    #[test]
    fn the_numbers_run_from_minus_1_to_127_without_99() {
        let numbers: Vec<i16> = ErrorCode::ALL.iter().map(|code| i16::from(*code)).collect();
        assert_eq!(numbers, (-1..=127).filter(|number| *number != 99).collect::<Vec<_>>());
        assert_eq!((ErrorCode::from_i16(99), ErrorCode::from_i16(128)), (None, None));
    }
}
