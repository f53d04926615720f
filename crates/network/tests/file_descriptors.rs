//! Running out of file descriptors. Alone in its process, since everything else in it would fail meanwhile.

mod captured_log;

use std::fs::File;

use captured_log::{Log, start, until};
use ottla_network::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_out_of_file_descriptors_is_said_and_survived() {
    let log = Log::fresh();
    let (_server, address) = start(Limits::default());
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: before.maximum }).unwrap();
    let mut others = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        others.push(file);
    }
    // One descriptor for our own end of the connection, none for the server's.
    others.pop();
    let mut client = TcpStream::connect(address).await.expect("the kernel accepts it");
    client.write_all(&[0, 0, 0, 2, b'E', b'!']).await.unwrap();
    until(|| !log.lines().is_empty()).await;
    drop(others);
    let mut answer = [0; 6];
    client.read_exact(&mut answer).await.expect("served once there are descriptors again");
    setrlimit(Resource::Nofile, before).unwrap();
    let lines = log.lines();
    assert!(lines[0].contains("cannot accept connections") && lines[0].contains("ulimit -n"), "{lines:?}");
}
