//! One connection: one task that reads frames, has them handled, and sends the answers in request order.
//!
//! ```text
//! socket -> FrameReader -> Service::call -> answers (in request order, some still waiting) -> Outbound -> socket
//! ```
//!
//! Every arrow stops at a bound, and each stop reaches back to the socket, where TCP makes the client wait:
//! no frame is handled while `in_flight_max` answers are due or `UNSENT_MEMORY_MAX` bytes of them are ready,
//! and nothing is read while a frame waits to be handled.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::frame_reader::{Frame, FrameReader, ReadError};
use crate::outbound::Outbound;
use crate::request_memory::{Charge, RequestMemory};
use crate::service::{Answer, Peer, PendingAnswer, Reply, Service};
use crate::stranger::Stranger;
use crate::transport::Transport;

/// Finished answers that a client has not read may take this much memory before its next request is
/// handled; one more answer may come on top. File regions do not count: they hold no memory.
const UNSENT_MEMORY_MAX: usize = 256 << 10;

/// After sending this much the task lets others run.
const SENT_PER_TURN: usize = 1 << 20;

/// When the memory for requests is exhausted, an incomplete request that holds some of it and gets no
/// further for this long loses its connection; else incomplete requests could hold all of it for ever.
const STARVED_MAX: Duration = Duration::from_secs(10);

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum Disconnect {
    /// The peer closed, or will say no more. `torn`: the beginning of the frame it did not finish, if that
    /// was its first.
    ByPeer {
        torn: Option<Vec<u8>>,
    },
    /// A size field that cannot be; the first bytes of the frame, from the size field on. `unknown_peer`: it
    /// was the first on this connection, so the peer may speak something else.
    Size {
        size: i32,
        first: Vec<u8>,
        unknown_peer: bool,
    },
    /// The service refused a request. `first`: as above, if it was the first on this connection.
    Refused {
        reason: Cow<'static, str>,
        first: Option<Vec<u8>>,
    },
    /// Nothing moved for `connections.max.idle.ms`.
    Idle,
    /// `queued.max.request.bytes` is in use and this connection's request did not get further.
    Starved,
    /// The server stops, and all that was due has been sent.
    Drained,
    Io(io::Error),
}

impl From<io::Error> for Disconnect {
    fn from(error: io::Error) -> Disconnect {
        Disconnect::Io(error)
    }
}

/// Tells connections and acceptors to finish.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    /// Set when called: until when they may take their time.
    deadline: OnceLock<Instant>,
    notify: Notify,
}

impl Stop {
    /// The first call counts.
    pub(crate) fn call(&self, deadline: Instant) {
        self.deadline.get_or_init(|| deadline);
        self.notify.notify_waiters();
    }

    /// Waits for the call; gives its deadline.
    pub(crate) async fn called(&self) -> Instant {
        let notified = self.notify.notified();
        match self.deadline.get() {
            Some(deadline) => *deadline,
            None => {
                notified.await;
                self.deadline.get().copied().unwrap_or_else(Instant::now)
            }
        }
    }

    fn is_called(&self) -> bool {
        self.deadline.get().is_some()
    }
}

/// The bounds that one connection needs to know.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimits {
    pub(crate) request_bytes_max: u32,
    pub(crate) in_flight_max: usize,
    pub(crate) idle_max: Option<Duration>,
}

pub(crate) struct Connection<S: Service, T> {
    service: Arc<S>,
    state: S::Connection,
    transport: T,
    limits: ConnectionLimits,
    reader: FrameReader,
    memory: Arc<RequestMemory>,
    answers: VecDeque<Slot>,
    /// Memory of the finished ones among `answers`, in bytes.
    finished_memory: usize,
    outbound: Outbound,
    /// Set when no further frame is to be read; the connection ends once what is due has been sent.
    ending: Option<Disconnect>,
    requests: u64,
    /// The beginning of the first request, to tell strangers by.
    first: Vec<u8>,
    last_moved: Instant,
    idle: Option<Pin<Box<Sleep>>>,
    starved: Option<Pin<Box<Sleep>>>,
}

/// The answer to one request, due when those before it have left.
enum Slot {
    Done(Answer),
    Waiting { answer: PendingAnswer, alone: bool, _charge: Charge },
}

impl<S: Service, T: Transport> Connection<S, T> {
    pub(crate) fn new(
        service: Arc<S>,
        peer: &Peer,
        transport: T,
        limits: ConnectionLimits,
        memory: Arc<RequestMemory>,
    ) -> Self {
        let now = Instant::now();
        Connection {
            state: service.connected(peer),
            service,
            transport,
            reader: FrameReader::new(memory.clone()),
            memory,
            answers: VecDeque::new(),
            finished_memory: 0,
            outbound: Outbound::default(),
            ending: None,
            requests: 0,
            first: Vec::new(),
            last_moved: now,
            idle: limits.idle_max.map(|max| Box::pin(sleep_until(now + max))),
            starved: None,
            limits,
        }
    }

    /// Runs until the connection ends. Once `stop` is called, no further request is handled and the
    /// connection ends as soon as the answers that are due have left.
    pub(crate) async fn run(mut self, stop: Arc<Stop>) -> Disconnect {
        let mut called = pin!(stop.notify.notified());
        let mut registered = false;
        poll_fn(|cx| {
            // Once is enough, since a task's waker stays the same; polling it takes a lock that all
            // connections share.
            if !registered {
                registered = true;
                let _ = called.as_mut().poll(cx);
            }
            if self.ending.is_none() && stop.is_called() {
                self.ending = Some(Disconnect::Drained);
            }
            self.poll(cx)
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        // All of them, not only the first: an answer of several steps gets on with the next. At most
        // `in_flight_max` cheap polls per wake-up.
        for slot in &mut self.answers {
            self.finished_memory += slot.poll(cx);
        }
        let mut sent = 0;
        loop {
            let handled = self.handle_frames(cx);
            let moved = match self.send(cx, SENT_PER_TURN.saturating_sub(sent)) {
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(error)) => return Poll::Ready(error.into()),
                Poll::Pending => 0,
            };
            sent += moved;
            if sent >= SENT_PER_TURN {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.is_finished() {
                return Poll::Ready(self.ending.take().expect("is_finished looks at it"));
            }
            match self.read(cx) {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(end)) => {
                    // What is finished may yet arrive; what still waits has nobody to wait for it.
                    self.answers.retain(|slot| matches!(slot, Slot::Done(_)));
                    self.ending = Some(end);
                }
                Poll::Pending if handled || moved > 0 => continue,
                Poll::Pending => return self.poll_clocks(cx),
            }
        }
    }

    /// Hands complete frames to the service while the bounds allow. True if there was one.
    fn handle_frames(&mut self, cx: &mut Context<'_>) -> bool {
        let mut handled = false;
        while self.ending.is_none() && self.may_handle() {
            let Some(Frame { bytes, charge }) = self.reader.next() else { break };
            self.first = match self.requests {
                0 => [&(bytes.len() as u32).to_be_bytes(), &bytes[..bytes.len().min(32)]].concat(),
                _ => Vec::new(),
            };
            self.requests += 1;
            handled = true;
            let mut slot = match self.service.call(&mut self.state, bytes) {
                Reply::Now(answer) => Slot::Done(answer),
                Reply::Later(answer) => Slot::Waiting { answer, alone: false, _charge: charge },
                Reply::Alone(answer) => Slot::Waiting { answer, alone: true, _charge: charge },
            };
            self.finished_memory += match &slot {
                Slot::Done(answer) => answer.memory(),
                Slot::Waiting { .. } => slot.poll(cx),
            };
            self.answers.push_back(slot);
        }
        handled
    }

    fn may_handle(&self) -> bool {
        self.answers.len() + self.outbound.files() < self.limits.in_flight_max
            && self.outbound.memory() + self.finished_memory < UNSENT_MEMORY_MAX
            && !matches!(
                self.answers.back(),
                Some(Slot::Waiting { alone: true, .. } | Slot::Done(Answer::Close(_)))
            )
    }

    /// Moves finished answers out, in order, and sends.
    fn send(&mut self, cx: &mut Context<'_>, quota: usize) -> Poll<io::Result<usize>> {
        while self.outbound.memory() < UNSENT_MEMORY_MAX {
            match self.answers.pop_front() {
                Some(Slot::Done(Answer::Send(response))) => {
                    self.finished_memory -= response.memory();
                    self.outbound.push(response)?;
                }
                Some(Slot::Done(Answer::Nothing)) => {}
                Some(Slot::Done(Answer::Close(reason))) => {
                    let first = (self.requests == 1).then(|| std::mem::take(&mut self.first));
                    self.ending = Some(Disconnect::Refused { reason, first });
                    self.answers.clear();
                }
                Some(waiting) => {
                    self.answers.push_front(waiting);
                    break;
                }
                None => break,
            }
        }
        let sent = self.outbound.poll_send(cx, &mut self.transport, quota);
        if matches!(sent, Poll::Ready(Ok(1..))) {
            self.last_moved = Instant::now();
        }
        sent
    }

    fn is_finished(&self) -> bool {
        self.ending.is_some() && self.outbound.is_empty() && self.answers.is_empty()
    }

    /// One read, if there is room for what it may bring.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Disconnect>> {
        if self.ending.is_some() || self.reader.has_complete() || !self.may_handle() {
            return Poll::Pending;
        }
        let size_max = self.service.request_bytes_max(&self.state).unwrap_or(u32::MAX);
        let size_max = size_max.min(self.limits.request_bytes_max);
        match self.reader.poll_read(cx, &mut self.transport, size_max) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => {
                let torn = if self.requests == 0 { self.reader.torn_frame() } else { None };
                Poll::Ready(Err(Disconnect::ByPeer { torn }))
            }
            Poll::Ready(Ok(_)) => {
                self.last_moved = Instant::now();
                self.starved = None;
                if self.requests == 0
                    && let Some(first) = self.reader.torn_frame()
                    && Stranger::recognise_torn(&first).is_some()
                {
                    return Poll::Ready(Err(Disconnect::ByPeer { torn: Some(first) }));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(ReadError::Size { size, first })) => {
                Poll::Ready(Err(Disconnect::Size { size, first, unknown_peer: self.requests == 0 }))
            }
            Poll::Ready(Err(ReadError::Io(error))) => Poll::Ready(Err(error.into())),
        }
    }

    /// Nothing can be done now: has nothing been done for too long?
    fn poll_clocks(&mut self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        if let (Some(idle), Some(idle_max)) = (&mut self.idle, self.limits.idle_max) {
            while idle.as_mut().poll(cx).is_ready() {
                let now = Instant::now();
                // A client in a long poll is waiting for us, not idle.
                if self.answers.iter().any(|slot| matches!(slot, Slot::Waiting { .. })) {
                    self.last_moved = now;
                }
                if self.last_moved + idle_max <= now {
                    return Poll::Ready(Disconnect::Idle);
                }
                idle.as_mut().reset(self.last_moved + idle_max);
            }
        }
        if self.memory.is_limited() && self.reader.holds_memory() {
            let starved =
                self.starved.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + STARVED_MAX)));
            while starved.as_mut().poll(cx).is_ready() {
                if self.memory.is_exhausted() {
                    return Poll::Ready(Disconnect::Starved);
                }
                starved.as_mut().reset(Instant::now() + STARVED_MAX);
            }
        }
        Poll::Pending
    }
}

impl Slot {
    /// Gives the memory that the answer holds, if this finished it.
    fn poll(&mut self, cx: &mut Context<'_>) -> usize {
        if let Slot::Waiting { answer, .. } = self
            && let Poll::Ready(answer) = answer.as_mut().poll(cx)
        {
            let memory = answer.memory();
            *self = Slot::Done(answer);
            return memory;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::service::FileRegion;

    /// A socket with buffers of a known size and no kernel behind it, so that time can be paused.
    struct Pipe(DuplexStream);

    impl AsyncRead for Pipe {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buffer)
        }
    }

    impl Transport for Pipe {
        fn poll_send(
            &mut self,
            cx: &mut Context<'_>,
            slices: &[IoSlice<'_>],
            _: bool,
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(cx, &slices[0])
        }

        fn poll_send_file(&mut self, _: &mut Context<'_>, _: &FileRegion) -> Poll<io::Result<usize>> {
            unreachable!("no file is sent here")
        }
    }

    /// `N`: the frame back, now. `L`: the same, after an hour. `D`: 20 bytes for each of ours.
    struct Clockwork {
        calls: AtomicUsize,
    }

    impl Service for Clockwork {
        type Connection = ();

        fn connected(&self, _: &Peer) {}

        fn call(&self, _: &mut (), request: Bytes) -> Reply {
            self.calls.fetch_add(1, Ordering::Relaxed);
            match request.first() {
                Some(b'L') => Reply::later(async {
                    tokio::time::sleep(HOUR).await;
                    Answer::Send(request.into())
                }),
                Some(b'D') => Reply::now(vec![0; request.len() * 20]),
                _ => Reply::now(request),
            }
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const IDLE_MAX: Duration = Duration::from_secs(600);

    struct Served {
        client: DuplexStream,
        service: Arc<Clockwork>,
        task: JoinHandle<Disconnect>,
    }

    /// A connection whose pipe holds 64 KiB in each direction.
    fn serve(memory: Arc<RequestMemory>) -> Served {
        let (client, server) = duplex(64 << 10);
        let service = Arc::new(Clockwork { calls: AtomicUsize::new(0) });
        let peer = Peer { listener: "PLAINTEXT".into(), address: ([127, 0, 0, 1], 1).into(), id: 1 };
        let limits =
            ConnectionLimits { request_bytes_max: 100 << 20, in_flight_max: 64, idle_max: Some(IDLE_MAX) };
        let connection = Connection::new(service.clone(), &peer, Pipe(server), limits, memory);
        let task = tokio::spawn(connection.run(Arc::new(Stop::default())));
        Served { client, service, task }
    }

    fn unlimited() -> Arc<RequestMemory> {
        RequestMemory::new(None)
    }

    fn frame(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    /// The time at which the connection ended, and why. Paused time jumps to the next timer.
    async fn end_of(task: JoinHandle<Disconnect>) -> (Duration, Disconnect) {
        let start = Instant::now();
        let disconnect = task.await.expect("no panic");
        (start.elapsed(), disconnect)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_moves_ends_after_the_idle_time() {
        let silent = serve(unlimited());
        let (after, why) = end_of(silent.task).await;
        assert!(
            matches!(why, Disconnect::Idle) && after.abs_diff(IDLE_MAX) < Duration::from_secs(1),
            "{why:?}"
        );

        let mut half_sent = serve(unlimited());
        advance(IDLE_MAX / 2).await;
        half_sent.client.write_all(&frame(b"never whole")[..7]).await.unwrap();
        let (after, why) = end_of(half_sent.task).await;
        assert!(
            matches!(why, Disconnect::Idle) && after.abs_diff(IDLE_MAX) < Duration::from_secs(1),
            "{why:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_for_an_answer_is_not_idle() {
        let mut served = serve(unlimited());
        served.client.write_all(&frame(b"L")).await.unwrap();
        let start = Instant::now();
        assert_eq!(served.client.read_u32().await.unwrap(), 1);
        assert!(start.elapsed() >= HOUR);
        let (after, why) = end_of(served.task).await;
        assert!(
            matches!(why, Disconnect::Idle) && after.abs_diff(IDLE_MAX) < Duration::from_secs(1),
            "{why:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_stops_being_served_and_ends_as_idle() {
        let mut served = serve(unlimited());
        let requests = frame(&[b'D'; 1000]).repeat(10_000);
        let writing = timeout(Duration::from_secs(1), served.client.write_all(&requests)).await;
        assert!(writing.is_err(), "nobody takes them any more");
        // 20 KB an answer: the pipe's 64 KiB, what may lie unsent, and the one on top.
        let calls = served.service.calls.load(Ordering::Relaxed);
        assert!((UNSENT_MEMORY_MAX / 20_000..25).contains(&calls), "{calls} handled");
        let (after, why) = end_of(served.task).await;
        assert!(matches!(why, Disconnect::Idle) && after <= IDLE_MAX, "{why:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_stream_lets_finished_answers_go_and_drops_the_rest() {
        let mut served = serve(unlimited());
        let requests = [frame(b"none"), frame(b"ntwo"), frame(b"L"), frame(b"nlost")].concat();
        served.client.write_all(&requests).await.unwrap();
        served.client.shutdown().await.unwrap();
        let (after, why) = end_of(served.task).await;
        assert!(matches!(why, Disconnect::ByPeer { torn: None }), "{why:?}");
        assert!(after < Duration::from_secs(1), "nobody waits for a long poll whose client has gone");
        let mut received = Vec::new();
        served.client.read_to_end(&mut received).await.unwrap();
        assert!(received.starts_with(&[frame(b"none"), frame(b"ntwo")].concat()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_request_gives_way_when_the_memory_is_used_up() {
        let memory = RequestMemory::new(Some(300 << 10));
        let mut hog = serve(memory.clone());
        let large = frame(&vec![b'n'; 1 << 20]);
        hog.client.write_all(&large[..900 << 10]).await.unwrap();
        // The hog stops sending; another one needs what it holds.
        let mut other = serve(memory.clone());
        let writing = tokio::spawn(async move {
            other.client.write_all(&large).await.unwrap();
            other.client.read_u32().await.unwrap()
        });
        let (after, why) = end_of(hog.task).await;
        assert!(matches!(why, Disconnect::Starved), "{why:?}");
        assert!(after <= STARVED_MAX + Duration::from_secs(1), "{after:?}");
        assert_eq!(writing.await.unwrap(), 1 << 20, "the other one is served now");
        assert_eq!(memory.used(), 0);
    }
}
