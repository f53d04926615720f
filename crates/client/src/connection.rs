//! One TCP connection to one broker: requests out, responses back in the same order.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use ottla_protocol::messages::{
    ApiVersionsRequest, ListOffsetsRequest, SaslHandshakeRequest, SaslHandshakeResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Message, Request, Str, frame};
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::Address;
use crate::error::{ConnectionError, error_code};
use crate::stranger::{self, Stranger};
use crate::versions::ServedVersions;

/// Requests that may wait for their responses on one connection; the next sender waits.
const IN_FLIGHT_MAX: usize = 256;

/// The version of ApiVersions to begin with. Every broker since 2.4 serves it, and newer ones say nothing that matters here; an older
/// broker costs one more round trip, as a newer version would on each of the others.
const FIRST_API_VERSIONS: i16 = 3;

/// How long a peer may think about its first answer before someone asks who it is.
const SILENCE: Duration = Duration::from_secs(2);

/// Bytes reserved at least for the next read, and at most ahead of bytes that have really come.
const READ_RESERVE_MIN: usize = 16 << 10;
const READ_RESERVE_MAX: usize = 1 << 20;

/// How a connection behaves; shared by all connections of a client.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// What the broker sees in logs, metrics and quotas: `client.id`.
    pub client_id: String,
    /// For the TCP handshake, and again for the negotiation: `socket.connection.setup.timeout.ms`.
    pub connect_timeout: Duration,
    /// For one answer, after which the connection is given up: `request.timeout.ms`.
    pub request_timeout: Duration,
    /// The largest response that is accepted, in bytes.
    pub response_bytes_max: usize,
}

impl Default for ConnectionOptions {
    fn default() -> ConnectionOptions {
        ConnectionOptions {
            client_id: "ottla".to_owned(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            response_bytes_max: 256 << 20,
        }
    }
}

/// A connection with its versions negotiated. Clones share it; it closes when the last one goes.
#[derive(Debug, Clone)]
pub struct Connection {
    handle: Arc<Handle>,
    versions: Arc<ServedVersions>,
}

/// What the users of a connection hold; the task that serves the socket holds only [`Shared`].
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        let address = self.0.address.clone();
        self.0.close(ConnectionError::Closed { address, reason: Some("no longer needed".to_owned()) });
    }
}

#[derive(Debug)]
struct Shared {
    address: Address,
    options: ConnectionOptions,
    socket: TcpStream,
    state: Mutex<State>,
    /// Rings for the serving task: something is left to write, or the connection was closed.
    wake: Notify,
    /// Rings for senders: the outbox is empty, or the connection was closed.
    drained: Notify,
    in_flight: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    /// What the socket did not take at once, oldest first.
    outbox: VecDeque<Bytes>,
    /// Requests whose responses are due, oldest first; a broker answers in order.
    pending: VecDeque<Pending>,
    next_correlation: i32,
    /// Whether a whole response has come; until then the peer may be a stranger.
    proven: bool,
    closed: Option<ConnectionError>,
}

#[derive(Debug)]
struct Pending {
    correlation: i32,
    response: oneshot::Sender<Result<Bytes, ConnectionError>>,
    _permit: OwnedSemaphorePermit,
}

/// A response on its way. Dropping it forgets the response, not the request.
#[derive(Debug)]
#[must_use = "the response comes only to those who wait"]
pub struct ResponseOf<R> {
    shared: Arc<Shared>,
    version: i16,
    response: oneshot::Receiver<Result<Bytes, ConnectionError>>,
    request: PhantomData<fn() -> R>,
}

impl Connection {
    /// Connects and negotiates versions.
    ///
    /// A broker that hangs up on ApiVersions is asked again as 0.8 and 0.9 clients would; whoever hangs up on that too is
    /// no broker, and the error names who it is as far as that can be found out.
    pub async fn open(address: &Address, options: &ConnectionOptions) -> Result<Connection, ConnectionError> {
        let connection = Connection::start(address, options).await?;
        match connection.negotiate_or_tell_who().await {
            Ok(versions) => Ok(Connection { versions: Arc::new(versions), ..connection }),
            Err(ConnectionError::Closed { .. }) => {
                Connection::open_without_negotiation(address, options).await
            }
            Err(error) => Err(error),
        }
    }

    /// Negotiates; if the answer is long in coming, finds out meanwhile whether a broker is there at all.
    async fn negotiate_or_tell_who(&self) -> Result<ServedVersions, ConnectionError> {
        let mut negotiation = std::pin::pin!(self.negotiate());
        tokio::select! {
            versions = &mut negotiation => return versions,
            () = sleep(SILENCE) => {}
        }
        tokio::select! {
            versions = &mut negotiation => versions,
            found = stranger::ask(self.address()) => match found {
                Stranger::Mute => negotiation.await,
                found => Err(ConnectionError::Stranger { address: self.address().clone(), found }),
            },
        }
    }

    async fn open_without_negotiation(
        address: &Address,
        options: &ConnectionOptions,
    ) -> Result<Connection, ConnectionError> {
        let connection = Connection::start(address, options).await?;
        // A question about no topic at all: every broker since 0.8.0 answers it, and it changes nothing.
        let question = ListOffsetsRequest { replica_id: -1, ..Default::default() };
        let answer = async { connection.submit(&question, 0).await?.within(options.connect_timeout).await };
        match answer.await {
            Ok(_) => {
                // A broker on its way down or up may have hung up on the first question: to take it for an old one would cost
                // everything that was invented since. One that answers the old question and still not the new is old.
                let again = Connection::start(address, options).await?;
                match again.negotiate().await {
                    Ok(versions) => Ok(Connection { versions: Arc::new(versions), ..again }),
                    Err(ConnectionError::Closed { .. }) => {
                        tracing::debug!(%address, "broker without ApiVersions");
                        Ok(connection)
                    }
                    Err(error) => Err(error),
                }
            }
            Err(ConnectionError::Closed { .. } | ConnectionError::RequestTimedOut { .. }) => {
                let found = stranger::ask(address).await;
                Err(ConnectionError::Stranger { address: address.clone(), found })
            }
            Err(error) => Err(error),
        }
    }

    /// Connects; versions are those of a broker that has not said anything.
    async fn start(address: &Address, options: &ConnectionOptions) -> Result<Connection, ConnectionError> {
        let after = options.connect_timeout;
        let socket = timeout(after, open_socket(address))
            .await
            .map_err(|_| ConnectionError::ConnectTimedOut { address: address.clone(), after })??;
        let shared = Arc::new(Shared {
            address: address.clone(),
            options: options.clone(),
            socket,
            state: Mutex::default(),
            wake: Notify::new(),
            drained: Notify::new(),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        });
        tokio::spawn(serve(shared.clone()));
        let versions = Arc::new(ServedVersions::before_negotiation());
        Ok(Connection { handle: Arc::new(Handle(shared)), versions })
    }

    async fn negotiate(&self) -> Result<ServedVersions, ConnectionError> {
        let request = ApiVersionsRequest {
            client_software_name: Str::from_static("ottla"),
            client_software_version: Str::from_static(env!("CARGO_PKG_VERSION")),
            ..Default::default()
        };
        let mut version = FIRST_API_VERSIONS;
        loop {
            let response =
                self.submit(&request, version).await?.within(self.shared().options.connect_timeout).await?;
            match error_code(response.error_code) {
                ErrorCode::None => return Ok(ServedVersions::from_response(&response)),
                // The answer is in version 0 and says which versions there are, or nothing if the broker is older than that courtesy.
                ErrorCode::UnsupportedVersion if version > 0 => {
                    let served = ServedVersions::from_response(&response);
                    version = served.newest::<ApiVersionsRequest>(version - 1).unwrap_or(0);
                }
                code => {
                    return Err(ConnectionError::NegotiationRefused {
                        address: self.address().clone(),
                        code,
                    });
                }
            }
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.0
    }

    pub fn address(&self) -> &Address {
        &self.shared().address
    }

    pub fn options(&self) -> &ConnectionOptions {
        &self.shared().options
    }

    pub fn versions(&self) -> &ServedVersions {
        &self.versions
    }

    /// Whether nothing more can be sent.
    pub fn is_closed(&self) -> bool {
        self.shared().state.lock().closed.is_some()
    }

    /// The newest version of `R` that the broker and this client speak, at most `cap`.
    pub fn version_of<R: Request>(&self, cap: i16) -> Result<i16, ConnectionError> {
        self.versions.newest::<R>(cap).ok_or_else(|| ConnectionError::UnsupportedVersion {
            address: self.address().clone(),
            api: R::KEY,
            served: self.versions.served(R::KEY),
            ours: R::VERSIONS,
        })
    }

    /// Asks in the newest common version and waits for the answer, at most `request_timeout`.
    pub async fn request<R: Request>(&self, request: &R) -> Result<R::Response, ConnectionError> {
        let version = self.version_of::<R>(i16::MAX)?;
        self.submit(request, version).await?.within(self.shared().options.request_timeout).await
    }

    /// Sends without waiting for the answer, so that several requests can be under way.
    ///
    /// Requests leave in the order of these calls. Once this returns the request is on its way, whatever becomes of the answer.
    pub async fn submit<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<ResponseOf<R>, ConnectionError> {
        let shared = self.shared();
        let frame = shared.frame(request, version)?;
        let permit = shared.in_flight.clone().acquire_owned().await.map_err(|_| shared.closed_error())?;
        let (sender, response) = oneshot::channel();
        shared.send(frame, Some((sender, permit)))?;
        Ok(ResponseOf { shared: shared.clone(), version, response, request: PhantomData })
    }

    /// Sends a request that brings no response: Produce with acks 0.
    pub fn submit_unanswered<R: Request>(&self, request: &R, version: i16) -> Result<(), ConnectionError> {
        let shared = self.shared();
        let frame = shared.frame(request, version)?;
        shared.send(frame, None)
    }

    /// Waits until the socket has taken all that was sent; for those who get no answers that would hold them back.
    pub async fn drained(&self) -> Result<(), ConnectionError> {
        let shared = self.shared();
        loop {
            let mut drained = std::pin::pin!(shared.drained.notified());
            drained.as_mut().enable();
            {
                let state = shared.state.lock();
                if let Some(error) = &state.closed {
                    return Err(error.clone());
                }
                if state.outbox.is_empty() {
                    return Ok(());
                }
            }
            drained.await;
        }
    }
}

impl<R: Request> ResponseOf<R> {
    /// Waits at most `request_timeout` of the connection.
    pub async fn wait(self) -> Result<R::Response, ConnectionError> {
        let after = self.shared.options.request_timeout;
        self.within(after).await
    }

    /// Waits at most `after`. An answer that comes later would hold up all that follow it, so the connection closes.
    pub async fn within(self, after: Duration) -> Result<R::Response, ConnectionError> {
        let ResponseOf { shared, version, response, .. } = self;
        let address = &shared.address;
        let frame = match timeout(after, response).await {
            Ok(Ok(outcome)) => outcome?,
            Ok(Err(_)) => return Err(shared.closed_error()),
            Err(_) => {
                let error = ConnectionError::RequestTimedOut { address: address.clone(), api: R::KEY, after };
                shared.close(error.clone());
                return Err(error);
            }
        };
        decode_response::<R>(frame, version).map_err(|source| ConnectionError::Unreadable {
            address: address.clone(),
            api: R::KEY,
            version,
            source,
        })
    }
}

fn decode_response<R: Request>(frame: Bytes, version: i16) -> Result<R::Response, DecodeError> {
    let (_, mut body) = frame::decode_response_header(frame, R::KEY, version)?;
    // ApiVersions of an unknown version is answered in version 0, which its error code gives away.
    let refused =
        R::KEY == ApiKey::ApiVersions && body.clone().int16()? == i16::from(ErrorCode::UnsupportedVersion);
    R::Response::decode(&mut body, if refused { 0 } else { version })
}

impl Shared {
    /// The request as a frame; the correlation id is still to be filled in.
    fn frame<R: Request>(&self, request: &R, version: i16) -> Result<BytesMut, ConnectionError> {
        let mut frame = BytesMut::with_capacity(512);
        frame::encode_request(&mut frame, version, 0, Some(&self.options.client_id), request).map_err(
            |source| ConnectionError::Unwritable {
                address: self.address.clone(),
                api: R::KEY,
                version,
                source,
            },
        )?;
        Ok(frame)
    }

    /// Hands a frame to the socket, as much as it takes now, and leaves the rest to the serving task.
    fn send(
        &self,
        mut frame: BytesMut,
        answer: Option<(oneshot::Sender<Result<Bytes, ConnectionError>>, OwnedSemaphorePermit)>,
    ) -> Result<(), ConnectionError> {
        const CORRELATION: std::ops::Range<usize> = 8..12;
        let mut state = self.state.lock();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        let correlation = state.next_correlation;
        state.next_correlation = correlation.wrapping_add(1) & i32::MAX;
        frame[CORRELATION].copy_from_slice(&correlation.to_be_bytes());
        if let Some((response, permit)) = answer {
            state.pending.push_back(Pending { correlation, response, _permit: permit });
        }
        let idle = state.outbox.is_empty();
        state.outbox.push_back(frame.freeze());
        if idle {
            if let Err(error) = self.write_some(&mut state) {
                let error = self.broken(&error);
                self.close_locked(&mut state, error.clone());
                return Err(error);
            }
            if !state.outbox.is_empty() {
                self.wake.notify_one();
            }
        }
        Ok(())
    }

    /// Writes until the outbox is empty or the socket full.
    fn write_some(&self, state: &mut State) -> io::Result<()> {
        while let Some(front) = state.outbox.front_mut() {
            match self.socket.try_write(front) {
                Ok(written) => {
                    front.advance(written);
                    if front.is_empty() {
                        state.outbox.pop_front();
                        if state.outbox.is_empty() {
                            self.drained.notify_waiters();
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the frames that are whole off the front of `received` and hands them to those who wait.
    fn deliver(&self, received: &mut BytesMut) -> Result<(), ConnectionError> {
        let address = || self.address.clone();
        while let Some(size) = received.first_chunk().map(|size| i32::from_be_bytes(*size)) {
            let limit = self.options.response_bytes_max;
            let length = usize::try_from(size).unwrap_or(0);
            if !(4..=limit).contains(&length) {
                return Err(if self.state.lock().proven {
                    ConnectionError::ResponseSize { address: address(), size, limit }
                } else {
                    let found = Stranger::recognise(received).unwrap_or(Stranger::Unknown);
                    ConnectionError::Stranger { address: address(), found }
                });
            }
            if received.len() < 4 + length {
                received.reserve((4 + length - received.len()).min(READ_RESERVE_MAX));
                return Ok(());
            }
            let mut frame = received.split_to(4 + length).freeze();
            frame.advance(4);
            let got = i32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
            let mut state = self.state.lock();
            let Some(pending) = state.pending.pop_front() else {
                return Err(ConnectionError::Unsolicited { address: address() });
            };
            if pending.correlation != got {
                let error = if state.proven {
                    ConnectionError::WrongCorrelation {
                        address: address(),
                        got,
                        expected: pending.correlation,
                    }
                } else {
                    ConnectionError::Stranger { address: address(), found: Stranger::Unknown }
                };
                // Nobody may wait for ever: this one is told as the rest will be.
                let _ = pending.response.send(Err(error.clone()));
                return Err(error);
            }
            state.proven = true;
            drop(state);
            // Whoever gave up waiting has no use for it.
            let _ = pending.response.send(Ok(frame));
        }
        Ok(())
    }

    fn broken(&self, error: &io::Error) -> ConnectionError {
        ConnectionError::Closed { address: self.address.clone(), reason: Some(error.to_string()) }
    }

    fn closed_error(&self) -> ConnectionError {
        let error = self.state.lock().closed.clone();
        error.unwrap_or_else(|| ConnectionError::Closed { address: self.address.clone(), reason: None })
    }

    fn close(&self, error: ConnectionError) {
        self.close_locked(&mut self.state.lock(), error);
    }

    /// The first reason stands. Everyone who waits is told.
    fn close_locked(&self, state: &mut State, error: ConnectionError) {
        if state.closed.is_some() {
            return;
        }
        for pending in state.pending.drain(..) {
            let _ = pending.response.send(Err(error.clone()));
        }
        state.outbox.clear();
        state.closed = Some(error);
        self.in_flight.close();
        self.drained.notify_waiters();
        self.wake.notify_one();
    }
}

/// Reads responses, and writes what senders could not, until the connection closes.
async fn serve(shared: Arc<Shared>) {
    let mut received = BytesMut::new();
    let error = loop {
        let interest = {
            let state = shared.state.lock();
            if state.closed.is_some() {
                return;
            }
            if state.outbox.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE }
        };
        let ready = tokio::select! {
            ready = shared.socket.ready(interest) => ready,
            () = shared.wake.notified() => continue,
        };
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => break shared.broken(&error),
        };
        if ready.is_writable()
            && let Err(error) = shared.write_some(&mut shared.state.lock())
        {
            break shared.broken(&error);
        }
        if ready.is_readable() {
            received.reserve(READ_RESERVE_MIN);
            match shared.socket.try_read_buf(&mut received) {
                Ok(0) => break shared.hung_up(&received),
                Ok(_) => {
                    if let Err(error) = shared.deliver(&mut received) {
                        break error;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => break shared.broken(&error),
            }
        }
    };
    tracing::debug!(%error, "connection ends");
    shared.close(error);
}

impl Shared {
    /// `received` is what the peer sent last, less than a frame.
    fn hung_up(&self, received: &[u8]) -> ConnectionError {
        let address = self.address.clone();
        if !self.state.lock().proven
            && let Some(found) = Stranger::recognise(received)
        {
            return ConnectionError::Stranger { address, found };
        }
        ConnectionError::Closed { address, reason: None }
    }
}

/// Resolves and connects, trying each address that the name has.
pub(crate) async fn open_socket(address: &Address) -> Result<TcpStream, ConnectionError> {
    let unresolvable = |reason: String| ConnectionError::Unresolvable { address: address.clone(), reason };
    let candidates: Vec<SocketAddr> = match address.host().parse::<IpAddr>() {
        // A number needs no resolver, which would cost a thread.
        Ok(ip) => vec![SocketAddr::new(ip, address.port())],
        Err(_) => tokio::net::lookup_host((address.host(), address.port()))
            .await
            .map_err(|error| unresolvable(error.to_string()))?
            .collect(),
    };
    let mut trouble = unresolvable("the name has no address".to_owned());
    for candidate in candidates {
        match TcpStream::connect(candidate).await {
            Ok(socket) => {
                // Requests are whole frames: holding back the tail of one for an acknowledgement only costs time.
                socket.set_nodelay(true).map_err(|error| ConnectionError::Unreachable {
                    address: address.clone(),
                    reason: error.to_string(),
                })?;
                return Ok(socket);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                trouble = ConnectionError::Refused { address: address.clone() };
            }
            Err(error) => {
                trouble =
                    ConnectionError::Unreachable { address: address.clone(), reason: error.to_string() };
            }
        }
    }
    Err(trouble)
}

/// The SASL mechanisms of a listener that hung up on a request which came before authentication; `None` if it wants none.
pub(crate) async fn sasl_mechanisms(address: &Address, options: &ConnectionOptions) -> Option<Vec<String>> {
    let connection = Connection::open(address, options).await.ok()?;
    let SaslHandshakeResponse { error_code, mechanisms, .. } =
        connection.request(&SaslHandshakeRequest::default()).await.ok()?;
    (error_code == i16::from(ErrorCode::UnsupportedSaslMechanism))
        .then(|| mechanisms.iter().map(|mechanism| mechanism.to_string()).collect())
}
