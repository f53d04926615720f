//! Listeners, framing, ordered pipelining, sendfile.
//!
//! This crate knows frames, not APIs: a frame is a big-endian `i32` size and that many bytes. Frames go to a
//! [`Service`], its answers go back in request order.
//!
//! ```text
//! SocketServer -- accepts, counts --> one task per connection:
//!     socket -> FrameReader -> Service::call -> answers in order -> Outbound -> socket
//! ```
//!
//! * The next request is handled while earlier answers are pending. Kafka handles one at a time; clients
//!   cannot tell, since order is kept.
//! * Memory follows bytes received, never bytes announced; see [`Limits`] for every bound.
//! * A pending answer is polled inside the connection's own task. Waking a parked fetch costs one hop.

mod connection;
mod connection_quotas;
mod frame_reader;
mod listener;
mod log_limit;
mod outbound;
mod request_memory;
mod server;
mod service;
mod stranger;
mod transport;

pub use listener::{BindError, BoundListener, ListenerConfig};
pub use server::{Limits, SocketServer};
pub use service::{Answer, FileRegion, Part, Peer, PendingAnswer, Reply, Response, Service};
pub use stranger::Stranger;
