//! Measures brokers on this machine: against a floor, in alternating runs. See docs/performance.md.

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use clap::{Parser, Subcommand};

mod compare;
mod floor;
mod load;
mod process;
mod startup;
mod summary;
mod wire;

use compare::{ALL_SHAPES, Broker, Shape};
use process::Started;

/// The broker's own allocator, so that the floor over `ottla-network` is measured with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(about = "Measures brokers on this machine")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Everything below for one broker that is started here: start-up, idle cost, and the shapes against
    /// the floor. `{dir}` in the command becomes a new empty directory
    All {
        #[arg(long, default_value = "127.0.0.1:21592")]
        address: SocketAddr,
        #[arg(long, default_value_t = 5)]
        runs: usize,
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Time from exec to the first Metadata answer
    Startup {
        #[arg(long)]
        address: SocketAddr,
        #[arg(long, default_value_t = 11)]
        runs: usize,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Memory and CPU of a running broker that has nothing to do
    Idle {
        broker: Broker,
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
    /// Running brokers in alternating runs; the first is compared with the others and with two floors
    /// that are started here
    Compare {
        #[arg(required = true)]
        brokers: Vec<Broker>,
        #[arg(long, value_enum, value_delimiter = ',')]
        shapes: Vec<Shape>,
        #[arg(long, default_value_t = 5)]
        runs: usize,
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// Run the floor: the least a broker can do
    Floor {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long, value_enum, default_value = "file")]
        storage: floor::Storage,
        #[arg(long, value_enum, default_value = "threads")]
        edge: floor::Edge,
        #[arg(long)]
        directory: PathBuf,
        #[arg(long, default_value_t = 1)]
        partitions: i32,
        /// SO_SNDBUF and SO_RCVBUF with `--edge network`; the kernel's choice if absent
        #[arg(long)]
        socket_buffer_bytes: Option<usize>,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    match Arguments::parse().what {
        What::All { address, runs, seconds, command } => all(address, runs, seconds, &command),
        What::Startup { address, runs, command } => {
            println!("start to first Metadata answer: {} ms", startup::startup(&command, address, runs)?);
            Ok(())
        }
        What::Idle { broker, seconds } => idle(&broker, seconds),
        What::Compare { brokers, shapes, runs, seconds } => {
            let shapes = if shapes.is_empty() { ALL_SHAPES.to_vec() } else { shapes };
            with_floors(brokers, |brokers| compare::compare(brokers, &shapes, runs, seconds))
        }
        What::Floor { listen, storage, edge, directory, partitions, socket_buffer_bytes } => {
            let broker = floor::Floor::new(listen, storage, directory, partitions);
            let mut runtime = match edge {
                floor::Edge::Threads => return Ok(broker.run_threads(TcpListener::bind(listen)?)?),
                floor::Edge::Network => tokio::runtime::Builder::new_multi_thread(),
                floor::Edge::NetworkOneThread => tokio::runtime::Builder::new_current_thread(),
            };
            let runtime = runtime.enable_all().build()?;
            let serving = broker.run_network(socket_buffer_bytes);
            runtime.block_on(async { tokio::spawn(serving).await })??;
            Ok(())
        }
    }
}

fn all(address: SocketAddr, runs: usize, seconds: f64, command: &[String]) -> Result<(), Box<dyn Error>> {
    println!("start to first Metadata answer: {} ms", startup::startup(command, address, 11)?);
    let directory = tempfile::tempdir()?;
    let started =
        Started::new(&mut startup::command_in(command, &directory.path().to_string_lossy())?, address)?;
    let broker = Broker { name: "ottla".into(), address, pid: started.pid() };
    idle(&broker, 5.0)?;
    with_floors(vec![broker], |brokers| compare::compare(brokers, &ALL_SHAPES, runs, seconds))
}

fn idle(broker: &Broker, seconds: f64) -> Result<(), Box<dyn Error>> {
    let idle = startup::idle(broker.address, broker.pid, seconds)?;
    println!("resident when idle: {:.1} MiB", idle.resident_mib);
    println!("CPU when idle: {:.2} % of a core", idle.cpu_alone * 100.0);
    println!("CPU with 100 long-polling consumers: {:.2} % of a core", idle.cpu_with_consumers * 100.0);
    Ok(())
}

/// Adds both floors, on free ports, to the brokers.
fn with_floors(
    mut brokers: Vec<Broker>,
    measure: impl FnOnce(&[Broker]) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let mut floors = Vec::new();
    for (name, edge) in [("floor", "threads"), ("floor over ottla-network", "network")] {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let logs = directory.path().join(edge);
        std::fs::create_dir(&logs)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["floor", "--edge", edge, "--listen", &address.to_string(), "--directory"]).arg(&logs);
        let started = Started::new(&mut command, address)?;
        brokers.push(Broker { name: name.into(), address, pid: started.pid() });
        floors.push(started);
    }
    measure(&brokers)
}
