//! The server over loopback sockets, with a service that does what the first byte of a request says.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ottla_network::{
    Answer, FileRegion, Limits, ListenerConfig, Peer, Reply, Response, Service, SocketServer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

/// Counts what the process holds, so that "bounded" can be asserted.
struct Counting;
static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call on to the system allocator unchanged; the counter has no part in it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests here share one process and one allocation counter.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Request: a verb, then its argument.
#[derive(Default)]
struct Obedient {
    /// What `L` and `A` wait for.
    gate: Mutex<HashMap<u8, Arc<Semaphore>>>,
    calls: watch::Sender<usize>,
    file: Option<Arc<File>>,
}

impl Obedient {
    fn gate(&self, name: u8) -> Arc<Semaphore> {
        self.gate.lock().unwrap().entry(name).or_insert_with(|| Arc::new(Semaphore::new(0))).clone()
    }

    async fn called(&self, times: usize) {
        self.calls.subscribe().wait_for(|calls| *calls >= times).await.unwrap();
    }
}

impl Service for Obedient {
    type Connection = usize;

    fn connected(&self, _: &Peer) -> usize {
        0
    }

    fn call(&self, handled: &mut usize, request: Bytes) -> Reply {
        *handled += 1;
        self.calls.send_modify(|calls| *calls += 1);
        let argument = request.slice(request.len().min(1)..);
        let gate = argument.first().map(|name| self.gate(*name));
        let wait = |request: Bytes| async move {
            gate.expect("a gate is named").acquire().await.unwrap().forget();
            Answer::Send(request.into())
        };
        match request.first() {
            Some(b'E') => Reply::now(argument),
            Some(b'L') => Reply::later(wait(request)),
            Some(b'A') => Reply::Alone(Box::pin(wait(request))),
            Some(b'N') => Reply::Now(Answer::Nothing),
            // B and a size: that many bytes.
            Some(b'B') => Reply::now(vec![7; number(&argument)]),
            // F, offset, length: a header and that part of the file.
            Some(b'F') => Reply::now(Response::new("header").file(FileRegion {
                file: self.file.clone().expect("the test has a file"),
                offset: number(&argument[..8]) as u64,
                len: number(&argument[8..]) as u64,
            })),
            _ => Reply::close("unknown verb"),
        }
    }

    fn request_bytes_max(&self, handled: &usize) -> Option<u32> {
        // The second request on a connection that began with `A` is "after authentication".
        (*handled == 0 && self.gate.lock().unwrap().contains_key(&b'!')).then_some(16)
    }
}

fn number(bytes: &[u8]) -> usize {
    u64::from_be_bytes(bytes.try_into().unwrap()) as usize
}

fn start(service: Obedient, limits: Limits) -> (SocketServer, Arc<Obedient>, SocketAddr) {
    let service = Arc::new(service);
    let listener = ListenerConfig::new("PLAINTEXT", "127.0.0.1", 0).bind().unwrap();
    let address = listener.local_addr();
    (SocketServer::start(vec![listener], limits, service.clone()).unwrap(), service, address)
}

fn frame(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [&(body.len() as u32).to_be_bytes(), body].concat()
}

fn sized(verb: u8, numbers: &[u64]) -> Vec<u8> {
    let mut body = vec![verb];
    body.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    frame(body)
}

async fn answer(client: &mut TcpStream) -> Vec<u8> {
    let size = client.read_u32().await.expect("an answer");
    let mut body = vec![0; size as usize];
    client.read_exact(&mut body).await.expect("the whole answer");
    body
}

/// Every way of being closed: end of stream, or a reset because we had sent more than was read.
async fn closed(client: &mut TcpStream) -> bool {
    matches!(client.read_u8().await, Err(error) if matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset))
}

/// Waits, for as long as it takes, until the server has noticed.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_leave_in_request_order_while_later_requests_are_handled() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_server, service, address) = start(Obedient::default(), Limits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    let requests = [frame("La"), frame("Eone"), frame("N"), frame("Lb"), frame("Etwo")].concat();
    client.write_all(&requests).await.unwrap();
    service.called(5).await;
    service.gate(b'b').add_permits(1);
    assert!(client.try_read(&mut [0]).is_err(), "nothing overtakes the first answer");
    service.gate(b'a').add_permits(1);
    for expected in ["La", "one", "Lb", "two"] {
        assert_eq!(answer(&mut client).await, expected.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_handled_behind_a_request_that_must_be_alone() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_server, service, address) = start(Obedient::default(), Limits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&[frame("Eone"), frame("Aa"), frame("Etwo")].concat()).await.unwrap();
    assert_eq!(answer(&mut client).await, b"one");
    service.called(2).await;
    assert_eq!(*service.calls.borrow(), 2);
    service.gate(b'a').add_permits(1);
    assert_eq!(answer(&mut client).await, b"Aa");
    assert_eq!(answer(&mut client).await, b"two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_a_long_poll_gets_no_more_than_the_bound_handled() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_server, service, address) =
        start(Obedient::default(), Limits { in_flight_max: 8, ..Limits::default() });
    let mut client = TcpStream::connect(address).await.unwrap();
    for _ in 0..100 {
        client.write_all(&frame("La")).await.unwrap();
    }
    service.called(8).await;
    service.gate(b'a').add_permits(3);
    for _ in 0..3 {
        assert_eq!(answer(&mut client).await, b"La");
    }
    service.called(11).await;
    assert_eq!(*service.calls.borrow(), 11);
    service.gate(b'a').add_permits(97);
    for _ in 0..97 {
        assert_eq!(answer(&mut client).await, b"La");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_slower_than_it_asks_costs_little_and_loses_nothing() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_server, service, address) = start(Obedient::default(), Limits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    let before = HELD.load(Ordering::Relaxed);
    let requests = 10_000;
    let (mut reading, mut writing) = client.split();
    let write = async {
        // They fit the socket buffers; 200 MB of answers do not.
        for _ in 0..requests {
            writing.write_all(&sized(b'B', &[20_000])).await.unwrap();
        }
    };
    let read = async {
        service.called(100).await;
        let mut body = vec![0; 20_004];
        for _ in 0..requests {
            let held = HELD.load(Ordering::Relaxed).saturating_sub(before);
            assert!(held < 2 << 20, "{held} bytes are held for answers that nobody reads");
            reading.read_exact(&mut body).await.unwrap();
            assert_eq!(body[..4], 20_000u32.to_be_bytes());
        }
    };
    tokio::join!(write, read);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_are_announced_and_never_arrive_take_no_memory() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: limits.maximum, maximum: limits.maximum },
    )
    .unwrap();
    let (server, _, address) = start(Obedient::default(), Limits::default());
    let mut clients = Vec::new();
    for _ in 0..500 {
        clients.push(TcpStream::connect(address).await.unwrap());
    }
    until(|| server.connection_count() == 500).await;
    let before = HELD.load(Ordering::Relaxed);
    for client in &mut clients {
        client.write_all(&[0x06, 0x40, 0, 0, b'E']).await.unwrap();
    }
    // Served after the 500, on the same threads, so they have been read by now; twice, since there are two.
    for _ in 0..10 {
        let mut witness = TcpStream::connect(address).await.unwrap();
        witness.write_all(&frame("Ehello")).await.unwrap();
        assert_eq!(answer(&mut witness).await, b"hello");
    }
    let held = HELD.load(Ordering::Relaxed).saturating_sub(before);
    assert!(held < 500 * (4 << 10), "{held} bytes are held for 500 frames of which one byte arrived");
    drop(clients);
    until(|| server.connection_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_size_that_cannot_be_closes_that_connection_without_an_answer() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (server, service, address) =
        start(Obedient::default(), Limits { request_bytes_max: 1000, ..Limits::default() });
    let mut bystander = TcpStream::connect(address).await.unwrap();
    for (why, bytes) in [
        ("a negative size", vec![0xff, 0xff, 0xff, 0xff, 0, 0]),
        ("the smallest number there is", vec![0x80, 0, 0, 0]),
        ("one byte over the limit", 1001u32.to_be_bytes().to_vec()),
        ("a browser", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("a TLS client", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
        ("a request that the service refuses", frame("?")),
        ("a frame without a byte in it", frame("")),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&bytes).await.unwrap();
        assert!(closed(&mut client).await, "{why}");
    }
    bystander.write_all(&frame(["E", &"x".repeat(999)].concat())).await.unwrap();
    assert_eq!(answer(&mut bystander).await.len(), 999, "exactly the limit is fine, and others are unharmed");
    assert_eq!(*service.calls.borrow(), 3, "oversize frames never reach the service");
    until(|| server.connection_count() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_may_allow_strangers_less_than_friends() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_server, service, address) = start(Obedient::default(), Limits::default());
    service.gate(b'!');
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&frame(["E", &"x".repeat(16)].concat())).await.unwrap();
    assert!(closed(&mut client).await, "17 bytes before authentication");
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&frame("Eplease")).await.unwrap();
    assert_eq!(answer(&mut client).await, b"please");
    client.write_all(&frame(["E", &"x".repeat(16)].concat())).await.unwrap();
    assert_eq!(answer(&mut client).await.len(), 16, "17 bytes after it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_due_before_a_refused_request_still_arrive() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_server, service, address) = start(Obedient::default(), Limits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&[frame("La"), frame("Eone"), frame("?"), frame("Etwo")].concat()).await.unwrap();
    service.called(3).await;
    service.gate(b'a').add_permits(1);
    assert_eq!(answer(&mut client).await, b"La");
    assert_eq!(answer(&mut client).await, b"one");
    assert!(closed(&mut client).await);
    assert_eq!(*service.calls.borrow(), 3, "what came after it is not handled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_of_every_size_arrive_whole_however_they_are_cut() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_server, _, address) = start(Obedient::default(), Limits::default());
    let sizes = [
        0,
        1,
        3,
        4095,
        16_379,
        16_380,
        16_384,
        20_000,
        65_536,
        131_071,
        131_073,
        200_000,
        1 << 20,
        3 << 20,
        5,
        1 << 20,
    ];
    for chunk in [1usize << 22, 65_521, 1_000, 7] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.set_nodelay(true).unwrap();
        let sizes: Vec<usize> = sizes.iter().copied().filter(|size| *size <= chunk * 3_000).collect();
        let content = |size: usize| (0..size).map(|at| (at % 251) as u8).collect::<Vec<u8>>();
        let stream: Vec<u8> =
            sizes.iter().flat_map(|size| frame([&b"E"[..], &content(*size)].concat())).collect();
        let (mut reading, mut writing) = client.split();
        let write = async {
            for piece in stream.chunks(chunk) {
                writing.write_all(piece).await.unwrap();
            }
        };
        let read = async {
            for size in &sizes {
                assert_eq!(reading.read_u32().await.unwrap() as usize, *size);
                let mut body = vec![0; *size];
                reading.read_exact(&mut body).await.unwrap();
                assert!(body == content(*size), "{size} bytes sent in pieces of {chunk}");
            }
        };
        tokio::join!(write, read);
    }
}

fn file_of(len: usize) -> (tempfile::TempDir, Arc<File>, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..len).map(|at| (at / 7 % 256) as u8).collect();
    let path = directory.path().join("00000000000000000000.log");
    File::create(&path).unwrap().write_all(&content).unwrap();
    (directory, Arc::new(File::options().read(true).write(true).open(path).unwrap()), content)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_regions_arrive_whole_however_slowly_the_client_reads() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (_directory, file, content) = file_of(12 << 20);
    let (_server, _, address) =
        start(Obedient { file: Some(file), ..Obedient::default() }, Limits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    let regions =
        [(0, 100), (17, 16 << 10), (1 << 20, (16 << 10) + 1), (5, 0), (3, 9 << 20), ((12 << 20) - 5, 5)];
    for (offset, len) in regions {
        client.write_all(&sized(b'F', &[offset, len])).await.unwrap();
    }
    for (offset, len) in regions {
        assert_eq!(client.read_u32().await.unwrap() as u64, 6 + len);
        let mut body = vec![0; 6 + len as usize];
        for piece in body.chunks_mut(100_000) {
            client.read_exact(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(body[..6], *b"header");
        assert!(body[6..] == content[offset as usize..(offset + len) as usize], "{len} bytes at {offset}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_shrinks_underneath_closes_the_connection() {
    let _alone = ONE_AT_A_TIME.lock().await;
    for len in [100u64, 1 << 20] {
        let (_directory, file, _) = file_of(2 << 20);
        file.set_len(len / 2).unwrap();
        let (server, _, address) =
            start(Obedient { file: Some(file), ..Obedient::default() }, Limits::default());
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&sized(b'F', &[0, len])).await.unwrap();
        let mut received = Vec::new();
        let _ = client.read_to_end(&mut received).await;
        assert!((received.len() as u64) < 4 + 6 + len, "no byte is made up");
        until(|| server.connection_count() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_a_limit_are_closed_at_once_and_places_come_back() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (server, _, address) =
        start(Obedient::default(), Limits { connections_per_ip_max: 3, ..Limits::default() });
    for _ in 0..200 {
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&frame("Eyes")).await.unwrap();
            assert_eq!(answer(&mut client).await, b"yes");
            clients.push(client);
        }
        let mut fourth = TcpStream::connect(address).await.unwrap();
        assert!(closed(&mut fourth).await);
        drop(clients);
        until(|| server.connection_count() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_wait_for_memory_and_small_ones_do_not() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let limits = Limits { queued_request_bytes_max: Some(1 << 20), ..Limits::default() };
    let (server, service, address) = start(Obedient::default(), limits);
    let large = frame([&b"La"[..], &vec![0; 2 << 20]].concat());
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(&large).await.unwrap();
    service.called(1).await;
    assert!(server.queued_request_bytes() >= 1 << 20);
    let mut second = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = second.split();
    let write = async {
        let _ = writing.write_all(&large).await;
        std::future::pending::<()>().await
    };
    let mut write = std::pin::pin!(write);
    let small = async {
        let mut small = TcpStream::connect(address).await.unwrap();
        for _ in 0..50 {
            small.write_all(&frame("Esmall")).await.unwrap();
            assert_eq!(answer(&mut small).await, b"small");
        }
    };
    tokio::select! { _ = &mut write => unreachable!(), () = small => {} }
    assert_eq!(*service.calls.borrow(), 51, "the second large one has not been read");
    service.gate(b'a').add_permits(2);
    assert_eq!(answer(&mut first).await.len(), large.len() - 4);
    let read = async {
        let mut body = vec![0; large.len()];
        reading.read_exact(&mut body).await.unwrap();
    };
    tokio::select! { _ = &mut write => unreachable!(), () = read => {} }
    until(|| server.queued_request_bytes() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_closes_the_port_and_lets_answers_leave() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (server, service, address) = start(Obedient::default(), Limits::default());
    let mut waiting = TcpStream::connect(address).await.unwrap();
    waiting.write_all(&frame("La")).await.unwrap();
    let mut silent = TcpStream::connect(address).await.unwrap();
    until(|| server.connection_count() == 2).await;
    service.called(1).await;
    let shutdown = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    assert!(closed(&mut silent).await);
    assert!(TcpStream::connect(address).await.is_err(), "nobody new gets in");
    service.gate(b'a').add_permits(1);
    assert_eq!(answer(&mut waiting).await, b"La");
    assert!(closed(&mut waiting).await);
    shutdown.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_waits_no_longer_than_it_is_told_to() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (server, service, address) = start(Obedient::default(), Limits::default());
    let mut waiting = TcpStream::connect(address).await.unwrap();
    waiting.write_all(&frame("La")).await.unwrap();
    service.called(1).await;
    server.shutdown(Duration::from_millis(1)).await;
    assert!(closed(&mut waiting).await);
    assert_eq!(Arc::strong_count(&service), 1, "nothing is left running");
}

#[tokio::test]
async fn a_bound_listener_holds_its_port_and_refuses_until_it_is_started() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let bound = ListenerConfig::new("PLAINTEXT", "127.0.0.1", 0).bind().unwrap();
    let address = bound.local_addr();
    assert!(TcpStream::connect(address).await.is_err());
    let server = SocketServer::start(vec![bound], Limits::default(), Arc::new(Obedient::default())).unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&frame("Ehi")).await.unwrap();
    assert_eq!(answer(&mut client).await, b"hi");
    let taken = ListenerConfig::new("OTHER", "127.0.0.1", address.port()).bind().and_then(|bound| {
        SocketServer::start(vec![bound], Limits::default(), Arc::new(Obedient::default())).map(|_| ())
    });
    let error = taken.unwrap_err().to_string();
    assert!(error.starts_with(&format!("listener OTHER cannot listen on {address}")), "{error}");
    drop(server);
}
