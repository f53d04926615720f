//! A listening socket with Kafka's options.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::TcpListener;

const NO_IPV6_FAMILY: i32 = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
const NO_IPV6_ADDRESS: i32 = rustix::io::Errno::ADDRNOTAVAIL.raw_os_error();

/// One entry of `listeners`.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// `PLAINTEXT` in `PLAINTEXT://:9092`.
    pub name: Arc<str>,
    /// A name or an address; empty means every interface, IPv6 and IPv4.
    pub host: String,
    /// 0 takes a free one; see [`BoundListener::local_addr`].
    pub port: u16,
    /// `socket.send.buffer.bytes`; `None` (-1) leaves it to the kernel, which then adapts it.
    pub send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; as above.
    ///
    /// Kafka's default of 102400 is expensive here: the window stays so small that a producer is always
    /// blocked on it, and on loopback the broker's own recv(2) then runs the producer's transmission.
    /// Measured with 64-KiB batches: 0.81 CPU-s per GB against 0.57 with the kernel's choice. A send buffer of
    /// that size does no such harm.
    pub receive_buffer_bytes: Option<usize>,
    /// `socket.listen.backlog.size`.
    pub backlog: i32,
    /// `max.connections` of this listener alone.
    pub connections_max: usize,
    /// Other brokers come in here, so the broker-wide `max.connections` does not close it to them.
    pub inter_broker: bool,
}

impl ListenerConfig {
    /// Kafka's defaults, with socket buffers left to the kernel.
    pub fn new(name: &str, host: &str, port: u16) -> ListenerConfig {
        ListenerConfig {
            name: name.into(),
            host: host.into(),
            port,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            backlog: 50,
            connections_max: usize::MAX,
            inter_broker: false,
        }
    }

    /// Takes the port. Connections are refused until the listener is handed to
    /// [`SocketServer::start`](crate::SocketServer::start), so a broker can find a taken port early and
    /// open it late.
    pub fn bind(self) -> Result<BoundListener, BindError> {
        let trouble = |source| BindError {
            listener: self.name.clone(),
            address: format!("{}:{}", self.host, self.port),
            source,
        };
        let socket = self.bind_socket().map_err(trouble)?;
        let local_addr = socket.local_addr().and_then(|address| {
            address.as_socket().ok_or_else(|| io::Error::other("the socket has no internet address"))
        });
        let local_addr = local_addr.map_err(trouble)?;
        Ok(BoundListener { socket, local_addr, config: self })
    }

    fn bind_socket(&self) -> io::Result<Socket> {
        if self.host.is_empty() {
            return match self.bind_address(SocketAddr::from(([0u16; 8], self.port))) {
                // IPv6 is switched off on this machine.
                Err(error) if matches!(error.raw_os_error(), Some(NO_IPV6_FAMILY | NO_IPV6_ADDRESS)) => {
                    self.bind_address(SocketAddr::from(([0u8; 4], self.port)))
                }
                bound => bound,
            };
        }
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match self.bind_address(address) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Options are set once, here: on Linux accepted sockets inherit them, and a receive buffer must be
    /// known before the handshake to scale the window.
    fn bind_address(&self, address: SocketAddr) -> io::Result<Socket> {
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // A restarted broker must not wait for the last one's connections to leave TIME_WAIT.
        socket.set_reuse_address(true)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(300)))?;
        if let Some(bytes) = self.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.bind(&address.into())?;
        Ok(socket)
    }
}

/// A port that is taken but not yet open.
#[derive(Debug)]
pub struct BoundListener {
    socket: Socket,
    local_addr: SocketAddr,
    pub(crate) config: ListenerConfig,
}

impl BoundListener {
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The port that was taken, also when 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    pub(crate) fn listen(self) -> Result<(TcpListener, ListenerConfig), BindError> {
        let listening = self.socket.listen(self.config.backlog);
        match listening.and_then(|()| TcpListener::from_std(self.socket.into())) {
            Ok(listener) => Ok((listener, self.config)),
            Err(source) => {
                Err(BindError { listener: self.config.name, address: self.local_addr.to_string(), source })
            }
        }
    }
}

/// A listener could not take or open its port.
#[derive(Debug, thiserror::Error)]
#[error("listener {listener} cannot listen on {address}: {source}")]
pub struct BindError {
    pub listener: Arc<str>,
    pub address: String,
    pub source: io::Error,
}
