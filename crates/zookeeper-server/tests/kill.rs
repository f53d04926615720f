//! `kill -9` of a real process, at any moment: nothing that was answered is lost.

mod raw;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ottla_zookeeper_server::jute::{Reader, Writer};
use ottla_zookeeper_server::protocol::{Acl, Id, op, perms};
use ottla_zookeeper_server::{Config, Server};
use raw::{Frame, Hello, RawClient};

const DIRECTORY: &str = "OTTLA_TEST_SERVE";

/// Not a test of its own: the process that the other test kills is this binary, told to run this.
#[test]
fn serve_for_the_other_test() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = Config::new(directory);
        config.client_address = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Server::bind(config).await.unwrap();
        println!("\nserving {}", server.local_addr());
        server.run(std::future::pending()).await.unwrap();
    });
}

struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(directory: &Path) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serve_for_the_other_test", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("serving ")?.parse().ok());
        Process { child, address: address.expect("the server says where it serves") }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
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

fn names(client: &mut RawClient, path: &str) -> BTreeSet<String> {
    let (_, reply) = client.call(op::GET_CHILDREN, |writer| {
        writer.string(path);
        writer.boolean(false);
    });
    let Frame::Reply { error: 0, body, .. } = reply else { panic!("{path}: {reply:?}") };
    Reader::new(&body).strings().unwrap().into_iter().map(str::to_owned).collect()
}

#[test]
fn nothing_that_was_answered_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = Process::start(directory.path());
    let mut client = RawClient::connect(process.address, &Hello::default()).unwrap();
    client.call(op::CREATE, create("/n", 0));
    let mut answered = 0;
    let mut sent = 0;
    // Enough for the log to be cut off by a snapshot on the way.
    for life in 1..=12 {
        let session = client.session;
        let path = format!("/mine-{life}");
        assert!(matches!(client.call(op::CREATE, create(&path, 1)).1, Frame::Reply { error: 0, .. }));
        let goal = answered + 311 * life;
        for _ in 0..400 * life {
            client.send(op::CREATE, create(&format!("/n/{sent:08}"), 0));
            sent += 1;
        }
        while answered < goal {
            let reply = client.receive().unwrap();
            assert!(matches!(reply, Frame::Reply { error: 0, .. }), "{reply:?}");
            answered += 1;
        }
        process.kill();

        process = Process::start(directory.path());
        client = RawClient::connect(process.address, &client.hello()).unwrap();
        assert_eq!(client.session, session, "the session is taken up again");
        let kept = names(&mut client, "/n");
        assert!(kept.len() >= answered, "{answered} were answered, {} are there", kept.len());
        let expected: BTreeSet<String> = (0..kept.len()).map(|number| format!("{number:08}")).collect();
        assert_eq!(kept, expected, "those that are there are the first");
        let ephemerals = names(&mut client, "/").into_iter().filter(|name| name.starts_with("mine-")).count();
        assert_eq!(ephemerals, life, "ephemerals of a living session are kept");
        (sent, answered) = (kept.len(), kept.len());
    }
    client.call(op::CLOSE_SESSION, |_| {});
    process.kill();
    process = Process::start(directory.path());
    let mut client = RawClient::connect(process.address, &Hello::default()).unwrap();
    let left = names(&mut client, "/").into_iter().filter(|name| name.starts_with("mine-")).count();
    assert_eq!(left, 0, "closing the session deleted them for good");
    process.kill();
}
