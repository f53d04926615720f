//! A ZooKeeper server from a properties file: `cargo run -p ottla-zookeeper-server --example serve -- zookeeper.properties`.

use std::error::Error;

use ottla_zookeeper_server::{Config, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).init();
    let path = std::env::args().nth(1).ok_or("usage: serve <zookeeper.properties>")?;
    let server = Server::bind(Config::parse(&std::fs::read(path)?)?).await?;
    server
        .run(async {
            // Without a handler for Ctrl-C the process is simply killed, which the log is made for.
            let _interrupted = tokio::signal::ctrl_c().await;
        })
        .await?;
    Ok(())
}
