//! The controller's channels to the other brokers: one connection and one queue each, in order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ottla_client::{Address, Connection, ConnectionOptions};
use ottla_model::BrokerId;
use ottla_protocol::messages::{
    LeaderAndIsrRequest, StopReplicaRequest, StopReplicaResponse, UpdateMetadataRequest,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::metadata_cache::BrokerImage;
use crate::server::Broker;

/// Pause before a request is tried again, as Kafka's controller makes it.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The first pause; each is twice the one before. A broker registers a moment before its port opens, and has started
/// when it has heard from us.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Attempts after which the operator hears of it: a second or so.
const COMPLAIN_AFTER: u32 = 15;

/// What a peer had to say that the core must hear.
#[derive(Debug)]
pub enum PeerAnswer {
    Stopped { broker: BrokerId, response: StopReplicaResponse },
}

#[derive(Debug)]
enum Request {
    LeaderAndIsr(LeaderAndIsrRequest, i16),
    UpdateMetadata(UpdateMetadataRequest, i16),
    StopReplica(StopReplicaRequest, i16),
}

/// Channels to all other live brokers; dropped with the term.
///
/// A queue grows while its broker does not answer, and goes when that broker's session ends, `zookeeper.session.timeout.ms`
/// later: until then nothing may be left out, since orders build on each other.
#[derive(Debug)]
pub struct Peers {
    local: BrokerId,
    listener: String,
    options: ConnectionOptions,
    channels: HashMap<BrokerId, (Address, mpsc::UnboundedSender<Request>)>,
    answers: mpsc::UnboundedSender<PeerAnswer>,
    tasks: JoinSet<()>,
}

impl Peers {
    pub fn new(broker: &Arc<Broker>) -> (Peers, mpsc::UnboundedReceiver<PeerAnswer>) {
        let (answers, receiver) = mpsc::unbounded_channel();
        let peers = Peers {
            local: broker.id,
            listener: broker.config.listeners.inter_broker.as_str().to_owned(),
            options: ConnectionOptions {
                client_id: broker.id.to_string(),
                request_timeout: broker.config.controller.socket_timeout,
                ..Default::default()
            },
            channels: HashMap::new(),
            answers,
            tasks: JoinSet::new(),
        };
        (peers, receiver)
    }

    /// The brokers that live now: channels to others are closed, with what waits in them.
    pub fn set<'a>(&mut self, brokers: impl Iterator<Item = &'a BrokerImage>) {
        let mut addresses: BTreeMap<BrokerId, Address> = BTreeMap::new();
        for broker in brokers.filter(|broker| broker.id != self.local) {
            let endpoint = broker.endpoint(&self.listener);
            match endpoint.and_then(|endpoint| Some((&endpoint.host, u16::try_from(endpoint.port).ok()?))) {
                Some((host, port)) => drop(addresses.insert(broker.id, Address::new(host, port))),
                None => {
                    let listener = &self.listener;
                    tracing::error!(broker = %broker.id, listener, "broker has no such listener for its controller");
                }
            }
        }
        self.channels.retain(|id, (address, _)| addresses.get(id) == Some(address));
        for (id, address) in addresses {
            if self.channels.contains_key(&id) {
                continue;
            }
            let (sender, requests) = mpsc::unbounded_channel();
            let channel = Channel {
                broker: id,
                address: address.clone(),
                options: self.options.clone(),
                connection: None,
                answers: self.answers.clone(),
            };
            self.tasks.spawn(channel.run(requests));
            self.channels.insert(id, (address, sender));
        }
    }

    pub fn leader_and_isr(&self, broker: BrokerId, request: LeaderAndIsrRequest, version: i16) {
        self.send(broker, Request::LeaderAndIsr(request, version));
    }

    pub fn update_metadata(&self, broker: BrokerId, request: UpdateMetadataRequest, version: i16) {
        self.send(broker, Request::UpdateMetadata(request, version));
    }

    pub fn stop_replicas(&self, broker: BrokerId, request: StopReplicaRequest, version: i16) {
        self.send(broker, Request::StopReplica(request, version));
    }

    fn send(&self, broker: BrokerId, request: Request) {
        // A broker without a channel has just died: the news of it follows, and makes this request void.
        if let Some((_, channel)) = self.channels.get(&broker)
            && channel.send(request).is_err()
        {
            tracing::error!(%broker, "channel to broker has ended");
        }
    }
}

/// One broker's end of the line.
struct Channel {
    broker: BrokerId,
    address: Address,
    options: ConnectionOptions,
    connection: Option<Connection>,
    answers: mpsc::UnboundedSender<PeerAnswer>,
}

impl Channel {
    /// Sends each request until it is answered, one at a time: a later order must not overtake an earlier one.
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        while let Some(request) = requests.recv().await {
            let (mut attempts, mut pause) = (0, FIRST_RETRY_PAUSE);
            while let Err(error) = self.send(&request).await {
                attempts += 1;
                if attempts == COMPLAIN_AFTER {
                    tracing::warn!(broker = %self.broker, address = %self.address, %error, "order not answered, sent again");
                }
                self.connection = None;
                tokio::time::sleep(pause).await;
                pause = RETRY_PAUSE.min(2 * pause);
            }
        }
    }

    async fn send(&mut self, request: &Request) -> Result<(), ottla_client::ConnectionError> {
        let connection = match &self.connection {
            Some(connection) if !connection.is_closed() => connection.clone(),
            _ => {
                let opened = Connection::open(&self.address, &self.options).await?;
                self.connection.insert(opened).clone()
            }
        };
        let refused = match request {
            Request::LeaderAndIsr(request, version) => {
                connection.submit(request, *version).await?.wait().await?.error_code
            }
            Request::UpdateMetadata(request, version) => {
                connection.submit(request, *version).await?.wait().await?.error_code
            }
            Request::StopReplica(request, version) => {
                let response = connection.submit(request, *version).await?.wait().await?;
                let code = response.error_code;
                // Nobody listens any more once the term is over.
                let _ = self.answers.send(PeerAnswer::Stopped { broker: self.broker, response });
                code
            }
        };
        if refused != 0 {
            tracing::warn!(broker = %self.broker, code = refused, "order refused");
        }
        Ok(())
    }
}
