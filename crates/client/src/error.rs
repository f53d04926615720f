//! Why a call failed, said so that whoever reads it knows what to do next.

use std::ops::RangeInclusive;
use std::time::Duration;

use ottla_model::BrokerId;
use ottla_protocol::{ApiKey, DecodeError, EncodeError, ErrorCode};

use crate::stranger::Stranger;
use crate::{Address, InvalidAddress};

/// Trouble with one connection, or with the address it would go to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    #[error("{address} does not resolve ({reason}); check the host name")]
    Unresolvable { address: Address, reason: String },
    #[error("nothing listens at {address}; check the port, and that the broker is running")]
    Refused { address: Address },
    #[error("{address} cannot be reached: {reason}")]
    Unreachable { address: Address, reason: String },
    #[error("{address} did not take the connection within {} ms; a firewall may drop it", after.as_millis())]
    ConnectTimedOut { address: Address, after: Duration },
    #[error("{address} is not a broker's plain listener: {found}; {}", found.cure())]
    Stranger { address: Address, found: Stranger },
    #[error(
        "{address} demands SASL authentication (mechanisms: {}), which this client cannot do; use a listener without SASL",
        mechanisms.join(", ")
    )]
    SaslRequired { address: Address, mechanisms: Vec<String> },
    #[error("{address} closed the connection{}", reason.as_ref().map_or(String::new(), |reason| format!(": {reason}")))]
    Closed { address: Address, reason: Option<String> },
    #[error("{address} took {api:?} and did not answer within {} ms", after.as_millis())]
    RequestTimedOut { address: Address, api: ApiKey, after: Duration },
    #[error("{address} sent a response of {size} bytes; from 4 to {limit} are allowed")]
    ResponseSize { address: Address, size: i32, limit: usize },
    #[error("{address} answered request {got} where request {expected} was due")]
    WrongCorrelation { address: Address, got: i32, expected: i32 },
    #[error("{address} sent a response nobody asked for")]
    Unsolicited { address: Address },
    #[error("{address} sent a {api:?} response of version {version} that cannot be read: {source}")]
    Unreadable { address: Address, api: ApiKey, version: i16, source: DecodeError },
    #[error(
        "{api:?} of version {version}, the newest that {address} knows, cannot carry the request: {source}"
    )]
    Unwritable { address: Address, api: ApiKey, version: i16, source: EncodeError },
    #[error(
        "{address} {}; this client speaks versions {} to {}",
        served.as_ref().map_or(
            format!("does not serve {api:?}"),
            |served| format!("serves {api:?} in versions {} to {}", served.start(), served.end()),
        ),
        ours.start(),
        ours.end()
    )]
    UnsupportedVersion {
        address: Address,
        api: ApiKey,
        served: Option<RangeInclusive<i16>>,
        ours: RangeInclusive<i16>,
    },
    #[error("{address} answered ApiVersions with {code}")]
    NegotiationRefused { address: Address, code: ErrorCode },
}

impl ConnectionError {
    /// Whether another try, or another broker, may fare better.
    pub fn is_retriable(&self) -> bool {
        match self {
            ConnectionError::Unresolvable { .. }
            | ConnectionError::Refused { .. }
            | ConnectionError::Unreachable { .. }
            | ConnectionError::ConnectTimedOut { .. }
            | ConnectionError::Closed { .. }
            | ConnectionError::RequestTimedOut { .. } => true,
            ConnectionError::Stranger { .. }
            | ConnectionError::SaslRequired { .. }
            | ConnectionError::ResponseSize { .. }
            | ConnectionError::WrongCorrelation { .. }
            | ConnectionError::Unsolicited { .. }
            | ConnectionError::Unreadable { .. }
            | ConnectionError::Unwritable { .. }
            | ConnectionError::UnsupportedVersion { .. }
            | ConnectionError::NegotiationRefused { .. } => false,
        }
    }
}

/// Why a call of the client failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("no bootstrap broker can be used: {}", list(attempts))]
    NoBootstrap { attempts: Vec<ConnectionError> },
    #[error(
        "the bootstrap broker works, but it advertises broker {broker} as {advertised}: {cause}. Set advertised.listeners of \
         that broker to an address that works from here"
    )]
    AdvertisedUnreachable { broker: BrokerId, advertised: Address, cause: ConnectionError },
    #[error("broker {broker} is not in the cluster, or not alive")]
    UnknownBroker { broker: BrokerId },
    #[error("the cluster has no controller at the moment")]
    NoController,
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: String },
    #[error("topic {topic} has {partitions} partitions, so there is no partition {partition}")]
    UnknownPartition { topic: String, partition: i32, partitions: usize },
    #[error("partition {topic}-{partition} has no leader")]
    NoLeader { topic: String, partition: i32 },
    /// What the broker said, where it matters with the subject in front.
    #[error("{subject}: {}: {}", code.name(), message.as_deref().unwrap_or_else(|| code.message()))]
    Refused { subject: String, code: ErrorCode, message: Option<String> },
    #[error("{what} took longer than {} ms{}", after.as_millis(), last.as_ref().map_or(String::new(), |last| format!("; last: {last}")))]
    TimedOut { what: String, after: Duration, last: Option<Box<ClientError>> },
    #[error("the {api:?} response lacks {missing}")]
    Incomplete { api: ApiKey, missing: String },
}

/// The code that a number stands for; those of later releases are errors as well, and their number is in the debug log.
pub(crate) fn error_code(number: i16) -> ErrorCode {
    ErrorCode::from_i16(number).unwrap_or_else(|| {
        tracing::debug!(number, "error code of a later release");
        ErrorCode::UnknownServerError
    })
}

fn list(attempts: &[ConnectionError]) -> String {
    attempts.iter().map(ConnectionError::to_string).collect::<Vec<_>>().join("; ")
}

impl ClientError {
    pub(crate) fn refused(
        subject: impl Into<String>,
        code: ErrorCode,
        message: Option<&ottla_protocol::Str>,
    ) -> ClientError {
        let message = message.filter(|text| !text.is_empty()).map(|text| text.to_string());
        ClientError::Refused { subject: subject.into(), code, message }
    }

    /// Whether the same call may succeed later, unchanged.
    pub fn is_retriable(&self) -> bool {
        match self {
            ClientError::Connection(error) => error.is_retriable(),
            ClientError::AdvertisedUnreachable { cause, .. } => cause.is_retriable(),
            ClientError::NoBootstrap { attempts } => attempts.iter().any(ConnectionError::is_retriable),
            ClientError::UnknownBroker { .. }
            | ClientError::NoController
            | ClientError::UnknownTopic { .. }
            | ClientError::NoLeader { .. } => true,
            ClientError::Refused { code, .. } => code.is_retriable(),
            ClientError::Address(_)
            | ClientError::UnknownPartition { .. }
            | ClientError::TimedOut { .. }
            | ClientError::Incomplete { .. } => false,
        }
    }
}
