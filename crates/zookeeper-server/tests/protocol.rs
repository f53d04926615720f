//! What goes over the wire, byte by byte and in its order, and what happens to those who send something else.

mod raw;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use ottla_zookeeper_server::jute::Writer;
use ottla_zookeeper_server::protocol::{Acl, Id, op, perms};
use ottla_zookeeper_server::{Config, FourLetterWord, Server};
use raw::{Frame, Hello, RawClient};

/// A server on a thread of its own; it ends with the test's process.
fn start(directory: &Path, change: impl FnOnce(&mut Config)) -> SocketAddr {
    let mut config = Config::new(directory);
    config.client_address = (Ipv4Addr::LOCALHOST, 0).into();
    config.session_timeouts.min_ms = 100;
    change(&mut config);
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

fn create(path: &str, flags: i32) -> impl FnOnce(&mut Writer<'_>) {
    move |writer| {
        writer.string(path);
        writer.buffer(Some(b"data"));
        let open = Acl { perms: perms::ALL, id: Id::new("world", "anyone") };
        writer.vector(&[open], |writer, acl| acl.write(writer));
        writer.int(flags);
    }
}

fn get(path: &str, watch: bool) -> impl FnOnce(&mut Writer<'_>) {
    move |writer| {
        writer.string(path);
        writer.boolean(watch);
    }
}

fn error_of(frame: &Frame) -> i32 {
    match frame {
        Frame::Reply { error, .. } => *error,
        event @ Frame::Event { .. } => panic!("{event:?} is no reply"),
    }
}

#[test]
fn clients_older_than_the_read_only_flag_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    // `connect` checks that the answer has no flag either.
    let mut client = RawClient::connect(address, &Hello { read_only: None, ..Hello::default() }).unwrap();
    assert_ne!(client.session, 0);
    assert_eq!(error_of(&client.call(op::CREATE, create("/a", 0)).1), 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    let mut client = RawClient::connect(address, &Hello::default()).unwrap();
    let mut sent = Vec::new();
    for number in 0..500 {
        let path = format!("/n{number}");
        sent.push(client.send(op::CREATE, create(&path, 0)));
        sent.push(client.send(op::GET_DATA, get(&path, false)));
        sent.push(client.send(op::CREATE, create(&path, 0)));
    }
    let mut last_zxid = 0;
    for (index, sent) in sent.into_iter().enumerate() {
        let Frame::Reply { xid, zxid, error, .. } = client.receive().unwrap() else {
            panic!("nothing is watched")
        };
        assert_eq!(xid, sent);
        assert_eq!(error, if index % 3 == 2 { -110 } else { 0 }, "the second create of a path is refused");
        assert!(zxid >= last_zxid, "numbers never go back");
        last_zxid = zxid;
    }
}

#[test]
fn a_session_that_moves_leaves_its_old_connection_closed() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    let mut old = RawClient::connect(address, &Hello::default()).unwrap();
    old.call(op::CREATE, create("/mine", 1));
    old.call(op::EXISTS, get("/watched", true));
    let mut new = RawClient::connect(address, &old.hello()).unwrap();
    assert_eq!(new.session, old.session);
    old.receive().unwrap_err();
    let (events, reply) = new.call(op::CREATE, create("/watched", 0));
    assert_eq!((events, error_of(&reply)), (vec![], 0), "watches do not move: the client sets them again");
    assert_eq!(error_of(&new.call(op::EXISTS, get("/mine", false)).1), 0, "ephemerals do");
}

#[test]
fn a_wrong_password_is_told_that_the_session_expired_and_harms_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    let mut owner = RawClient::connect(address, &Hello::default()).unwrap();
    let mut thief = RawClient::connect(address, &Hello { password: vec![1; 16], ..owner.hello() }).unwrap();
    assert_eq!((thief.session, thief.timeout_ms), (0, 0));
    thief.receive().unwrap_err();
    assert_eq!(error_of(&owner.call(op::PING, |_| {}).1), 0, "the owner's connection stays");
}

#[test]
fn a_client_from_another_server_is_closed_without_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    assert!(RawClient::connect(address, &Hello { last_zxid: i64::MAX, ..Hello::default() }).is_err());
}

#[test]
fn a_client_that_knew_a_wiped_server_hears_that_its_session_expired() {
    let directory = tempfile::tempdir().unwrap();
    let mut client = RawClient::connect(start(directory.path(), |_| {}), &Hello::default()).unwrap();
    client.call(op::CREATE, create("/a", 0));
    // Starting in the same second gives the same epoch, so the test waits for the next.
    let second = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let born = second();
    while second() == born {
        std::thread::sleep(Duration::from_millis(20));
    }
    let wiped = tempfile::tempdir().unwrap();
    let again = RawClient::connect(start(wiped.path(), |_| {}), &client.hello()).unwrap();
    assert_eq!(again.session, 0);
}

#[test]
fn malformed_requests_are_answered_and_unknown_ones_end_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    let mut client = RawClient::connect(address, &Hello::default()).unwrap();
    for (why, operation, bytes) in [
        ("a create that stops after its path", op::CREATE, &[0, 0, 0, 2, b'/', b'a'][..]),
        ("a path longer than the frame", op::GET_DATA, &[0x7f, 0xff, 0xff, 0xff]),
        ("a path that is null", op::DELETE, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        ("a multi with an operation that cannot be in one", op::MULTI, &[0, 0, 0, 101, 0, 0, 0, 0, 0]),
        ("a watch mode that does not exist", op::ADD_WATCH, &[0, 0, 0, 1, b'/', 0, 0, 0, 9]),
        ("a billion watches", op::SET_WATCHES, &[0, 0, 0, 0, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0]),
    ] {
        let (_, reply) = client.call(operation, |writer| bytes.iter().for_each(|byte| writer.byte(*byte)));
        assert_eq!(error_of(&reply), -5, "{why}");
    }
    let (_, reply) = client.call(4242, |_| {});
    assert_eq!(error_of(&reply), -6, "an operation that does not exist");
    client.receive().unwrap_err();
}

#[test]
fn frames_beyond_the_limit_end_the_connection_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |config| config.frame_bytes_max = 10_000);
    let mut neighbour = RawClient::connect(address, &Hello::default()).unwrap();
    for length in [10_001_i32, i32::MAX, -1, i32::MIN] {
        let mut client = RawClient::connect(address, &Hello::default()).unwrap();
        client.send_bytes(&length.to_be_bytes());
        client.receive().unwrap_err();
    }
    assert_eq!(error_of(&neighbour.call(op::PING, |_| {}).1), 0);
}

#[test]
fn strangers_are_closed_without_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    for (why, bytes) in [
        ("a browser", &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..]),
        ("a TLS client", &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]),
        ("a Kafka client", &[0, 0, 0, 16, 0, 18, 0, 3, 0, 0, 0, 1, 0, 4, b't', b'e', b's', b't', 0, 0]),
        ("a Kafka producer of version 0.8", &[0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, b't', b'e']),
        ("zeros", &[0; 64]),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset is as good an end as any.
        let _closed_or_reset = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{why}");
    }
}

fn ask(address: SocketAddr, word: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(word.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn four_letter_words_tell_the_truth() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    let mut client = RawClient::connect(address, &Hello::default()).unwrap();
    client.call(op::CREATE, create("/a", 1));
    client.call(op::EXISTS, get("/b", true));
    assert_eq!(ask(address, "ruok"), "imok");
    assert_eq!(ask(address, "isro"), "rw");
    let session = format!("0x{:x}", client.session);
    for (word, parts) in [
        ("srvr", vec!["Zookeeper version: 3.9", "Mode: standalone", "Connections: 1", "Node count: 5"]),
        ("stat", vec!["Clients:", "Mode: standalone"]),
        (
            "mntr",
            vec![
                "zk_server_state\tstandalone",
                "zk_ephemerals_count\t1",
                "zk_watch_count\t1",
                "zk_znode_count\t5",
            ],
        ),
        ("conf", vec!["minSessionTimeout=100", "tickTime=3000"]),
        ("cons", vec![session.as_str(), "127.0.0.1"]),
        ("wchs", vec!["Total watches:1"]),
        ("envi", vec!["zookeeper.version=3.9"]),
        ("dump", vec!["dump is not executed because it is not in the whitelist."]),
    ] {
        let answer = ask(address, word);
        for part in parts {
            assert!(answer.contains(part), "{word}: {part:?} is not in {answer}");
        }
    }
}

#[test]
fn words_off_the_whitelist_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |config| config.four_letter_words = "ruok".parse().unwrap());
    assert_eq!(ask(address, "ruok"), "imok");
    assert!(ask(address, "srvr").contains("standalone"), "srvr is always answered");
    for word in
        FourLetterWord::ALL.map(FourLetterWord::name).iter().filter(|name| !["ruok", "srvr"].contains(name))
    {
        assert!(ask(address, word).contains("not in the whitelist"), "{word}");
    }
}

#[test]
fn an_address_has_no_more_connections_than_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |config| config.connections_per_address_max = 2);
    let first = RawClient::connect(address, &Hello::default()).unwrap();
    let _second = RawClient::connect(address, &Hello::default()).unwrap();
    assert!(RawClient::connect(address, &Hello::default()).is_err(), "the third is closed");
    drop(first);
    // The server notices the end of the first in its own time.
    while RawClient::connect(address, &Hello::default()).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_only_itself() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), |_| {});
    let mut client = RawClient::connect(address, &Hello::default()).unwrap();
    client.call(op::CREATE, |writer| {
        writer.string("/big");
        writer.buffer(Some(&vec![b'x'; 500_000]));
        writer.vector(&[Acl { perms: perms::ALL, id: Id::new("world", "anyone") }], |writer, acl| {
            acl.write(writer)
        });
        writer.int(0);
    });
    let mut lazy = RawClient::connect(address, &Hello::default()).unwrap();
    // 1 GB of answers is asked for, and not read: the server stops reading instead of keeping them.
    for _ in 0..2000 {
        lazy.send(op::GET_DATA, get("/big", false));
    }
    assert_eq!(error_of(&client.call(op::GET_DATA, get("/big", false)).1), 0);
    for _ in 0..2000 {
        assert_eq!(error_of(&lazy.receive().unwrap()), 0, "all are answered once they are read");
    }
}
