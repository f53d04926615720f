//! Broker processes: started, watched through /proc, stopped.

use std::io;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::wire::Client;

/// A broker that this program started. Dropping it stops it.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// From just before exec to a Metadata answer that names a broker.
    pub ready_after: Duration,
}

impl Started {
    /// Starts a command and waits until it serves at `address`.
    pub fn new(command: &mut Command, address: SocketAddr) -> io::Result<Started> {
        if Client::connect(address).is_ok() {
            return Err(io::Error::other(format!("something listens on {address} already")));
        }
        let start = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut started = Started { child, ready_after: Duration::ZERO };
        loop {
            if Client::connect(address)
                .and_then(|mut client| client.broker_count())
                .is_ok_and(|count| count > 0)
            {
                started.ready_after = start.elapsed();
                return Ok(started);
            }
            if let Some(status) = started.child.try_wait()? {
                return Err(io::Error::other(format!("{command:?} ended: {status}")));
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err(io::Error::other(format!("{command:?} does not answer at {address}")));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Started {
    /// SIGTERM, and SIGKILL for what does not heed it in 5 s.
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU seconds, user and system, that a process has used so far.
pub fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything; times are the 14th and 15th field of all.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / ticks_per_second())
}

/// Resident memory of a process in MiB.
pub fn resident_mib(pid: u32) -> io::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| io::Error::other("no VmRSS"))
}

/// CPU seconds that the whole machine has been busy, steal included.
pub fn machine_busy_seconds() -> io::Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let idle: f64 = ticks.iter().skip(3).take(2).sum(); // idle, iowait
    let guest: f64 = ticks.iter().skip(8).sum(); // counted in user already
    Ok((ticks.iter().sum::<f64>() - idle - guest) / ticks_per_second())
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}
