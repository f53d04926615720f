//! The same random operations against this server and Apache's: the same answers, events and transaction numbers.
//!
//! Runs where Debian's `zookeeper` package (3.8.0) and a JVM are installed, and says so where they are not.
//! `OTTLA_SEED` repeats a run, `OTTLA_OPERATIONS` makes it longer.
//!
//! Where 3.8.0 differs from the 3.9 that this server follows, the operations keep away: `exists` on a znode that may
//! not be read, events of such znodes, one-shot watches beside persistent ones of the same session, `create2` in
//! a multi (3.8.0 answers it without the stat), and `checkWatches` (3.8.0 takes anybody's watch for one's own).

mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ottla_zookeeper_server::jute::{Reader, Writer};
use ottla_zookeeper_server::protocol::{Acl, Id, Stat, op, perms};
use ottla_zookeeper_server::{Config, Server};
use raw::{Frame, Hello, RawClient, read_stat};

const JAR: &str = "/usr/share/java/zookeeper.jar";
const SESSIONS: usize = 4;
/// Session 3 has persistent watches, the others have one-shot watches.
const PERSISTENT: usize = 3;

/// xorshift: the same seed, the same operations.
struct Random(u64);

impl Random {
    fn next(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.next(n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.next(from.len())].clone()
    }
}

#[derive(Debug, Clone)]
enum Op {
    Create {
        operation: i32,
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        flags: i32,
    },
    Delete {
        path: String,
        version: i32,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
    /// exists, getData, getChildren, getChildren2.
    Read {
        operation: i32,
        path: String,
        watch: bool,
    },
    /// getACL, sync, getAllChildrenNumber, getEphemerals.
    Path {
        operation: i32,
        path: String,
    },
    Multi {
        operation: i32,
        ops: Vec<Op>,
    },
    /// addWatch, removeWatches.
    Watch {
        operation: i32,
        path: String,
        mode: i32,
    },
    WhoAmI,
    Reconfig,
    Auth {
        scheme: String,
        auth: Vec<u8>,
    },
    /// Each list against the last transaction the session knew before it lost its connection.
    SetWatches {
        lists: Vec<Vec<String>>,
    },
}

impl Op {
    fn operation(&self) -> i32 {
        match self {
            Op::Create { operation, .. }
            | Op::Read { operation, .. }
            | Op::Path { operation, .. }
            | Op::Multi { operation, .. }
            | Op::Watch { operation, .. } => *operation,
            Op::Delete { .. } => op::DELETE,
            Op::SetData { .. } => op::SET_DATA,
            Op::SetAcl { .. } => op::SET_ACL,
            Op::Check { .. } => op::CHECK,
            Op::WhoAmI => op::WHO_AM_I,
            Op::Reconfig => op::RECONFIG,
            Op::Auth { .. } => op::AUTH,
            Op::SetWatches { .. } => op::SET_WATCHES2,
        }
    }

    fn write(&self, writer: &mut Writer<'_>, relative_zxid: i64) {
        match self {
            Op::Create { operation, path, data, acl, flags } => {
                writer.string(path);
                writer.buffer(data.as_deref());
                writer.vector(acl, |writer, acl| acl.write(writer));
                writer.int(*flags);
                if *operation == op::CREATE_TTL {
                    writer.long(1000);
                }
            }
            Op::Delete { path, version } | Op::Check { path, version } => {
                writer.string(path);
                writer.int(*version);
            }
            Op::SetData { path, data, version } => {
                writer.string(path);
                writer.buffer(data.as_deref());
                writer.int(*version);
            }
            Op::SetAcl { path, acl, version } => {
                writer.string(path);
                writer.vector(acl, |writer, acl| acl.write(writer));
                writer.int(*version);
            }
            Op::Read { path, watch, .. } => {
                writer.string(path);
                writer.boolean(*watch);
            }
            Op::Path { path, .. } => writer.string(path),
            Op::Multi { ops, .. } => {
                let header = |writer: &mut Writer<'_>, operation, done| {
                    writer.int(operation);
                    writer.boolean(done);
                    writer.int(-1);
                };
                for op in ops {
                    header(writer, op.operation(), false);
                    op.write(writer, relative_zxid);
                }
                header(writer, -1, true);
            }
            Op::Watch { path, mode, .. } => {
                writer.string(path);
                writer.int(*mode);
            }
            Op::WhoAmI => {}
            Op::Reconfig => {
                writer.buffer(None);
                writer.buffer(None);
                writer.string("server.1=a:1:2");
                writer.long(-1);
            }
            Op::Auth { scheme, auth } => {
                writer.int(0);
                writer.string(scheme);
                writer.buffer(Some(auth));
            }
            Op::SetWatches { lists } => {
                writer.long(relative_zxid);
                for list in lists {
                    writer.vector(list, |writer, path| writer.string(path));
                }
            }
        }
    }
}

/// Makes up operations over few enough paths that they meet.
struct Generator {
    random: Random,
    /// Paths that were created; some are gone again.
    known: Vec<String>,
}

impl Generator {
    fn path(&mut self) -> String {
        if self.random.one_in(40) {
            let odd = [
                "/",
                "t",
                "/t/",
                "/t//a",
                "/t/.",
                "/t/../t",
                "/zookeeper",
                "/zookeeper/config",
                "/t/a\u{1}",
                "//",
            ];
            return self.random.pick(&odd).to_owned();
        }
        if !self.known.is_empty() && self.random.one_in(3) {
            return self.random.pick(&self.known);
        }
        let mut path = "/t".to_owned();
        for _ in 0..=self.random.next(3) {
            path.push('/');
            path.push_str(self.random.pick(&["a", "b", "c", "d"]));
        }
        path
    }

    /// A path below `/acl`, where nothing is watched.
    fn guarded_path(&mut self) -> String {
        format!("/acl/{}", self.random.pick(&["a", "b", "c", "d"]))
    }

    fn data(&mut self) -> Option<Vec<u8>> {
        match self.random.next(6) {
            0 => None,
            1 => Some(Vec::new()),
            n => Some(vec![b'x'; n * 7]),
        }
    }

    fn version(&mut self) -> i32 {
        self.random.pick(&[-1, -1, -1, 0, 0, 1, 2, 3])
    }

    fn acl(&mut self) -> Vec<Acl> {
        let count = self.random.next(3);
        let mut acl = Vec::new();
        for _ in 0..=count {
            let (scheme, id) = self.random.pick(&[
                ("world", "anyone"),
                ("world", "somebody"),
                ("auth", ""),
                ("digest", "ann:m8ZDGr5iGcNUpgCrJsEFxUFCwJw="),
                ("digest", "ann"),
                ("digest", "a:b:c"),
                ("digest", "a:"),
                ("ip", "127.0.0.1"),
                ("ip", "127.0.0.0/8"),
                ("ip", "10.0.0.0/8"),
                ("ip", "127.0.0.1/99"),
                ("nobody", "x"),
            ]);
            acl.push(Acl { perms: self.random.next(32) as i32, id: Id::new(scheme, id) });
        }
        if self.random.one_in(12) { Vec::new() } else { acl }
    }

    fn open(&self) -> Vec<Acl> {
        vec![Acl { perms: perms::ALL, id: Id::new("world", "anyone") }]
    }

    fn create(&mut self, in_multi: bool) -> Op {
        let path = self.path();
        let flags = self.random.pick(&[0, 0, 0, 0, 1, 1, 2, 3, if in_multi { 0 } else { 9 }]);
        let operation = self.random.pick(&[op::CREATE, if in_multi { op::CREATE } else { op::CREATE2 }]);
        Op::Create { operation, path, data: self.data(), acl: self.open(), flags }
    }

    fn write(&mut self, in_multi: bool) -> Op {
        match self.random.next(8) {
            0..=3 => self.create(in_multi),
            4 | 5 => Op::Delete { path: self.path(), version: self.version() },
            _ => Op::SetData { path: self.path(), data: self.data(), version: self.version() },
        }
    }

    fn guarded(&mut self) -> Op {
        let path = self.guarded_path();
        let (data, acl, version) = (self.data(), self.acl(), self.version());
        match self.random.next(7) {
            0 | 1 => Op::Create { operation: op::CREATE2, path, data, acl, flags: 0 },
            2 => Op::SetAcl { path, acl, version },
            3 => Op::SetData { path, data, version },
            4 => Op::Delete { path, version },
            5 => Op::Path { operation: op::GET_ACL, path },
            _ => Op::Read { operation: op::GET_DATA, path, watch: false },
        }
    }

    fn next(&mut self, session: usize) -> Op {
        let watch = session != PERSISTENT && self.random.one_in(2);
        match self.random.next(40) {
            0..=15 => self.write(false),
            16..=19 => {
                let mut ops = Vec::new();
                for _ in 0..self.random.next(5) {
                    ops.push(match self.random.one_in(4) {
                        true => Op::Check { path: self.path(), version: self.version() },
                        false => self.write(true),
                    });
                }
                Op::Multi { operation: op::MULTI, ops }
            }
            20..=27 => {
                let operation =
                    self.random.pick(&[op::EXISTS, op::GET_DATA, op::GET_CHILDREN, op::GET_CHILDREN2]);
                Op::Read { operation, path: self.path(), watch }
            }
            28 => {
                let mut ops = Vec::new();
                for _ in 0..self.random.next(4) {
                    let operation = self.random.pick(&[op::GET_DATA, op::GET_CHILDREN]);
                    ops.push(Op::Read { operation, path: self.path(), watch: false });
                }
                Op::Multi { operation: op::MULTI_READ, ops }
            }
            29..=32 => self.guarded(),
            33 => {
                let operations = [op::GET_ACL, op::SYNC, op::GET_ALL_CHILDREN_NUMBER, op::GET_EPHEMERALS];
                Op::Path { operation: self.random.pick(&operations), path: self.path() }
            }
            34 | 35 if session == PERSISTENT => {
                // For 3.8.0 a session watches a path in one mode at a time, so the path decides which.
                let path = self.path();
                let (operation, mode) = match self.random.one_in(4) {
                    true => (op::REMOVE_WATCHES, 3),
                    false => (op::ADD_WATCH, (path.matches('/').count() % 2) as i32),
                };
                Op::Watch { operation, path, mode }
            }
            34 | 35 => {
                let mode = 1 + self.random.next(3) as i32;
                Op::Watch { operation: op::REMOVE_WATCHES, path: self.path(), mode }
            }
            36 => Op::Create {
                operation: op::CREATE_CONTAINER,
                path: self.path(),
                data: None,
                acl: self.open(),
                flags: 4,
            },
            37 if self.random.one_in(3) => {
                let path = self.path();
                Op::Create { operation: op::CREATE_TTL, path, data: None, acl: self.open(), flags: 5 }
            }
            37 if self.random.one_in(3) => Op::Reconfig,
            37 => Op::WhoAmI,
            38 => Op::Auth {
                scheme: "digest".to_owned(),
                auth: self.random.pick(&[b"ann:x".to_vec(), b"bob".to_vec()]),
            },
            _ => {
                let mut lists = Vec::new();
                for list in 0..5 {
                    let mut paths = Vec::new();
                    // One-shot or persistent, as the session has them. No odd paths: a client only sends what was accepted.
                    if (list >= 3) == (session == PERSISTENT) {
                        for _ in 0..self.random.next(4) {
                            let recursive = ["/t/a/b", "/t/c/a", "/t/b/b"];
                            let other = ["/t/a", "/t/b", "/t/c", "/t/d"];
                            paths.push(
                                self.random.pick(if list == 4 { &recursive[..] } else { &other }).to_owned(),
                            );
                        }
                    }
                    lists.push(paths);
                }
                Op::SetWatches { lists }
            }
        }
    }
}

/// One of the two servers, seen through its sessions.
struct Side {
    address: SocketAddr,
    sessions: Vec<RawClient>,
    /// Session ids in the order they were given out, since two servers give out different ones.
    known_sessions: BTreeMap<i64, usize>,
    /// What a transaction number is counted from.
    base: i64,
}

/// What a step showed: what the two sides must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    events: Vec<Vec<(i32, String)>>,
    error: i32,
    zxid: i64,
    body: String,
}

impl Side {
    fn connect(address: SocketAddr) -> Side {
        let mut side = Side { address, sessions: Vec::new(), known_sessions: BTreeMap::new(), base: 0 };
        for _ in 0..SESSIONS {
            let client = RawClient::connect(address, &Hello::default()).unwrap();
            side.know(client.session);
            side.sessions.push(client);
        }
        for path in ["/t", "/acl"] {
            let create = Op::Create {
                operation: op::CREATE2,
                path: path.to_owned(),
                data: None,
                acl: vec![Acl { perms: perms::ALL, id: Id::new("world", "anyone") }],
                flags: 0,
            };
            let (_, reply) = side.sessions[0].call(create.operation(), |writer| create.write(writer, 0));
            let Frame::Reply { zxid, error: 0, .. } = reply else {
                panic!("{path} is not created: {reply:?}")
            };
            side.base = zxid;
        }
        side
    }

    fn know(&mut self, session: i64) {
        let number = self.known_sessions.len() + 1;
        self.known_sessions.entry(session).or_insert(number);
    }

    fn relative(&self, zxid: i64) -> i64 {
        if zxid <= 0 { zxid } else { zxid - self.base }
    }

    fn stat(&self, stat: &Stat) -> String {
        let owner = match stat.ephemeral_owner {
            0 => "none".to_owned(),
            session => format!("session {:?}", self.known_sessions.get(&session)),
        };
        format!(
            "czxid={} mzxid={} pzxid={} version={} cversion={} aversion={} owner={owner} length={} children={} times={}",
            self.relative(stat.czxid.0),
            self.relative(stat.mzxid.0),
            self.relative(stat.pzxid.0),
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.data_length,
            stat.num_children,
            if stat.ctime == 0 {
                "built in"
            } else if stat.ctime <= stat.mtime {
                "in order"
            } else {
                "out of order"
            },
        )
    }

    /// The answer's body as text in which equal means equal.
    fn describe(&self, op: &Op, body: &[u8]) -> String {
        let mut reader = Reader::new(body);
        let text = match op {
            Op::Multi { .. } => self.describe_multi(&mut reader),
            Op::Delete { .. } | Op::Auth { .. } | Op::SetWatches { .. } | Op::Reconfig | Op::Check { .. } => {
                String::new()
            }
            Op::WhoAmI => {
                let ids = reader
                    .vector(8, |reader| Ok(format!("{:?}", (reader.string()?, reader.string()?))))
                    .unwrap();
                ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
            }
            _ => self.describe_record(op.operation(), &mut reader),
        };
        assert_eq!(reader.left(), 0, "{op:?} is answered with more than belongs there");
        text
    }

    fn describe_record(&self, operation: i32, reader: &mut Reader<'_>) -> String {
        let names = |reader: &mut Reader<'_>| {
            let mut names: Vec<_> = reader.strings().unwrap().into_iter().map(str::to_owned).collect();
            names.sort();
            format!("{names:?}")
        };
        match operation {
            op::CREATE | op::SYNC => reader.string().unwrap().to_owned(),
            op::CREATE2 | op::CREATE_CONTAINER | op::CREATE_TTL => {
                let path = reader.string().unwrap().to_owned();
                format!("{path} {}", self.stat(&read_stat(reader)))
            }
            op::SET_DATA | op::SET_ACL | op::EXISTS => self.stat(&read_stat(reader)),
            op::GET_DATA => {
                let data = reader.buffer().unwrap().map(<[u8]>::to_vec);
                format!("{data:?} {}", self.stat(&read_stat(reader)))
            }
            op::GET_CHILDREN | op::GET_EPHEMERALS => names(reader),
            op::GET_CHILDREN2 => format!("{} {}", names(reader), self.stat(&read_stat(reader))),
            op::GET_ACL => {
                let acl = Acl::read_vector(reader).unwrap();
                format!("{acl:?} {}", self.stat(&read_stat(reader)))
            }
            op::GET_ALL_CHILDREN_NUMBER | op::ADD_WATCH => reader.int().unwrap().to_string(),
            op::REMOVE_WATCHES => String::new(),
            other => panic!("operation {other} has no record here"),
        }
    }

    fn describe_multi(&self, reader: &mut Reader<'_>) -> String {
        let mut text = String::new();
        loop {
            let (operation, done, error) =
                (reader.int().unwrap(), reader.boolean().unwrap(), reader.int().unwrap());
            text += &format!("[{operation} {done} {error}] ");
            if done {
                return text;
            }
            match operation {
                op::ERROR => text += &reader.int().unwrap().to_string(),
                op::DELETE | op::CHECK => {}
                other => text += &self.describe_record(other, reader),
            }
        }
    }

    /// Lets one session do `op`, and gathers what every session hears of it.
    fn step(&mut self, session: usize, op: &Op, relative_zxid: i64) -> Seen {
        let (events, reply) =
            self.sessions[session].call(op.operation(), |writer| op.write(writer, relative_zxid));
        let Frame::Reply { zxid, error, body, .. } = reply else { unreachable!("call returns replies") };
        let body = if error == 0 { self.describe(op, &body) } else { String::new() };
        let mut heard: Vec<Vec<(i32, String)>> = Vec::new();
        for (number, client) in self.sessions.iter_mut().enumerate() {
            let mut frames = if number == session { events.clone() } else { Vec::new() };
            // What was queued for the session before now comes before the answer to this.
            frames.extend(client.call(op::PING, |_| {}).0);
            let event = |frame| match frame {
                Frame::Event { kind, path } => (kind, path),
                reply @ Frame::Reply { .. } => unreachable!("{reply:?} among events"),
            };
            heard.push(frames.into_iter().map(event).collect());
        }
        Seen { events: heard, error, zxid: self.relative(zxid), body }
    }

    /// The session's connection breaks; `meanwhile` happens; the client comes back.
    fn reconnect(&mut self, session: usize) {
        let hello = self.sessions[session].hello();
        self.sessions[session] = RawClient::connect(self.address, &hello).unwrap();
        assert_eq!(self.sessions[session].session, hello.session, "the session is taken up again");
    }

    /// The session is closed, and another takes its place. What the others hear, in no particular order: Apache's
    /// deletes ephemerals in the order of a hash.
    fn close_session(&mut self, session: usize) -> Vec<BTreeSet<(i32, String)>> {
        let client = &mut self.sessions[session];
        let (_, reply) = client.call(op::CLOSE_SESSION, |_| {});
        assert!(matches!(reply, Frame::Reply { error: 0, .. }), "{reply:?}");
        client.receive().unwrap_err();
        self.sessions[session] = RawClient::connect(self.address, &Hello::default()).unwrap();
        self.know(self.sessions[session].session);
        let mut heard = Vec::new();
        for (number, client) in self.sessions.iter_mut().enumerate() {
            let (events, _) = client.call(op::PING, |_| {});
            assert!(number != session || events.is_empty());
            let event = |frame| match frame {
                Frame::Event { kind, path } => (kind, path),
                reply @ Frame::Reply { .. } => unreachable!("{reply:?} among events"),
            };
            heard.push(events.into_iter().map(event).collect());
        }
        heard
    }
}

struct Apache {
    process: Child,
    address: SocketAddr,
}

impl Apache {
    fn start(directory: &Path) -> Apache {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let config = directory.join("zoo.cfg");
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n",
            directory.display()
        );
        std::fs::write(&config, text).unwrap();
        let process = Command::new("java")
            .args(["-Xmx256m", "-cp", JAR, "org.apache.zookeeper.server.quorum.QuorumPeerMain"])
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let apache = Apache { process, address };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !apache.is_up() {
            assert!(Instant::now() < deadline, "Apache's server does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        apache
    }

    /// While it starts, it may take a connection and never answer.
    fn is_up(&self) -> bool {
        let mut answer = String::new();
        let mut ask = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"srvr")?;
            stream.read_to_string(&mut answer)
        };
        ask().is_ok() && answer.contains("Mode: standalone")
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _waited = self.process.wait();
    }
}

fn start_ours(directory: &Path) -> SocketAddr {
    let mut config = Config::new(directory);
    config.client_address = (Ipv4Addr::LOCALHOST, 0).into();
    config.connections_per_address_max = 0;
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::bind(config).await.unwrap();
            send.send(server.local_addr()).unwrap();
            server.run(std::future::pending()).await.unwrap();
        });
    });
    receive.recv().unwrap()
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn answers_are_those_of_apache_zookeeper() {
    let has_java = Command::new("java").arg("-version").stderr(Stdio::null()).status().is_ok();
    if !Path::new(JAR).exists() || !has_java {
        eprintln!(
            "skipped answers_are_those_of_apache_zookeeper: no java or no {JAR} (apt-get install zookeeper)"
        );
        return;
    }
    let seed = from_environment("OTTLA_SEED", 0x0771_a000_0000_0001).max(1);
    let operations = from_environment("OTTLA_OPERATIONS", 3000);
    eprintln!("repeat: OTTLA_SEED={seed}");

    let (our_directory, their_directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let apache = Apache::start(their_directory.path());
    let mut ours = Side::connect(start_ours(our_directory.path()));
    let mut theirs = Side::connect(apache.address);
    let mut generator = Generator { random: Random(seed), known: Vec::new() };

    for step in 0..operations {
        let session = generator.random.next(SESSIONS);
        if generator.random.one_in(60) {
            let heard = (ours.close_session(session), theirs.close_session(session));
            assert_eq!(heard.0, heard.1, "step {step}: closing session {session} (OTTLA_SEED={seed})");
            continue;
        }
        let mut before = (ours.sessions[session].last_zxid, theirs.sessions[session].last_zxid);
        if generator.random.one_in(30) {
            // Away while another session does something, then back with the watches it had.
            let other = (session + 1) % SESSIONS;
            before = (ours.sessions[session].last_zxid, theirs.sessions[session].last_zxid);
            ours.reconnect(session);
            theirs.reconnect(session);
            let op = generator.write(false);
            assert_eq!(
                ours.step(other, &op, 0),
                theirs.step(other, &op, 0),
                "step {step}: {op:?} (OTTLA_SEED={seed})"
            );
        }
        let op = generator.next(session);
        let seen = (ours.step(session, &op, before.0), theirs.step(session, &op, before.1));
        assert_eq!(seen.0, seen.1, "step {step}: session {session}: {op:?} (OTTLA_SEED={seed})");
        if let (Op::Create { .. }, 0) = (&op, seen.0.error) {
            let path = seen.0.body.split(' ').next().unwrap_or_default().to_owned();
            if generator.known.len() > 30 {
                let index = generator.random.next(30);
                generator.known.swap_remove(index);
            }
            if path.starts_with("/t") {
                generator.known.push(path);
            }
        }
    }
}
