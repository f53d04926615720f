//! `zookeeper-shell`: looks at ZooKeeper and changes it, in the commands and lines of Apache's zkCli.

mod order;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::mpsc;
use zookeeper_client as zk;

use self::order::{Misunderstood, Order, PERMISSIONS};
use super::Command;
use super::command_line::VERSION;
use super::servers::fail;
use super::tools::{self, Failure};
use super::zookeeper_brokers;
use crate::logging;

pub const COMMAND: Command =
    Command { name: "zookeeper-shell", about: "look at ZooKeeper and change it, as zkCli does", run };

const USAGE: &str = "\
USAGE: zookeeper-shell zookeeper_host:port[/path] [command [arguments]]

Obeys one command and ends, or else those on standard input, one a line. \"help\" lists them.
";

/// Exit code of a shell for a command that is not there.
const NOT_FOUND: u8 = 127;

fn run(arguments: Vec<String>) -> ExitCode {
    let mut arguments = arguments.into_iter().skip(1).peekable();
    // As zkCli itself is called.
    arguments.next_if(|argument| argument == "-server");
    let connect = match arguments.next() {
        Some(asked) if asked == "--help" || asked == "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(connect) if !connect.starts_with('-') => connect,
        _ => {
            eprint!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.peek().is_some_and(|argument| argument == "-zk-tls-config-file") {
        return fail("this shell speaks to ZooKeeper's plain port only, so -zk-tls-config-file is of no use");
    }
    logging::to_stderr();
    let words: Vec<String> = arguments.collect();
    tools::run(async move {
        tools::print(&format!("Connecting to {connect}\n"))?;
        if words.is_empty() { obey_lines(&connect).await } else { obey_once(&connect, &words).await }
    })
}

async fn obey_once(connect: &str, words: &[String]) -> Result<ExitCode, Failure> {
    let order = match Order::parse(words) {
        Ok(order) => order,
        Err(Misunderstood::Unknown(_)) => {
            eprint!("{}", order::usage());
            return Ok(ExitCode::from(NOT_FOUND));
        }
        Err(misunderstood) => return Err(misunderstood.into()),
    };
    let mut shell = Shell::open(connect).await?;
    let obeyed = shell.obey(order).await;
    shell.close().await;
    obeyed.map(|()| ExitCode::SUCCESS)
}

/// A line that goes wrong is said to, and the next one obeyed.
async fn obey_lines(connect: &str) -> Result<ExitCode, Failure> {
    let interactive = io::stdin().is_terminal();
    let mut shell = Shell::open(connect).await?;
    let mut lines = read_lines();
    let mut number = 0;
    loop {
        if interactive {
            tools::print(&format!("[zk: {connect}(CONNECTED) {number}] "))?;
        }
        let line = match lines.recv().await {
            Some(line) => line?,
            None => break,
        };
        let words = order::words(&line);
        if words.is_empty() {
            continue;
        }
        number += 1;
        let order = match Order::parse(&words) {
            Ok(Order::Quit) => break,
            Ok(order) => order,
            Err(misunderstood) => {
                if matches!(misunderstood, Misunderstood::Unknown(_)) {
                    eprint!("{}", order::usage());
                }
                eprintln!("{misunderstood}");
                continue;
            }
        };
        if let Err(error) = shell.obey(order).await {
            eprintln!("{error}");
        }
    }
    shell.close().await;
    tools::print(&event_lines("Closed", "None", None))?;
    Ok(ExitCode::SUCCESS)
}

/// Standard input line by line, read by a thread of its own, so that watches are told while nobody types.
fn read_lines() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A session, and the watches that were set in it.
struct Shell {
    client: zk::Client,
    print_watches: Arc<AtomicBool>,
}

impl Shell {
    /// Opens a session, and says so in zkCli's way.
    async fn open(connect: &str) -> Result<Shell, Failure> {
        let (hosts, chroot) = match connect.find('/') {
            Some(slash) => connect.split_at(slash),
            None => (connect, ""),
        };
        let connector =
            || zk::Client::connector().with_session_timeout(Duration::from_secs(30)).connect(hosts);
        let client = zookeeper_brokers::open(connect, connector).await?;
        let chroot = chroot.trim_end_matches('/');
        let client = match chroot {
            "" => client,
            chroot => {
                client.chroot(chroot.to_owned()).map_err(|_| format!("{chroot:?} cannot be a chroot"))?
            }
        };
        tools::print(&event_lines("SyncConnected", "None", None))?;
        Ok(Shell { client, print_watches: Arc::new(AtomicBool::new(true)) })
    }

    /// Ends the session, so that its ephemeral znodes go now.
    async fn close(self) {
        let mut states = self.client.state_watcher();
        drop(self.client);
        let closed = async { while !states.changed().await.is_terminated() {} };
        // The server ends the session by itself if it does not hear us.
        let _ = tokio::time::timeout(Duration::from_secs(2), closed).await;
    }

    /// Shows what comes of it: results on standard output, "Created" and complaints on standard error, as zkCli does.
    async fn obey(&mut self, order: Order) -> Result<(), Failure> {
        let mut shown = Vec::new();
        match order {
            Order::List { path, recursive: true, .. } => self.list_all(&path, &mut shown).await?,
            Order::List { path, stat, watch, .. } => {
                let (children, found) = if watch {
                    let (children, found, watcher) =
                        self.at(&path, self.client.get_and_watch_children(&path)).await?;
                    self.tell(watcher);
                    (children, found)
                } else {
                    self.at(&path, self.client.get_children(&path)).await?
                };
                show_list(children, &mut shown);
                show_stat(stat.then_some(&found), &mut shown);
            }
            Order::Get { path, stat, watch } => {
                let (data, found) = if watch {
                    let (data, found, watcher) =
                        self.at(&path, self.client.get_and_watch_data(&path)).await?;
                    self.tell(watcher);
                    (data, found)
                } else {
                    self.at(&path, self.client.get_data(&path)).await?
                };
                // The client cannot tell no data from data of no length; directories of Kafka have none.
                shown.extend_from_slice(if data.is_empty() { b"null" } else { &data });
                shown.push(b'\n');
                show_stat(stat.then_some(&found), &mut shown);
            }
            Order::Stat { path, watch } => {
                let found = if watch {
                    let (found, watcher) = self.at(&path, self.client.check_and_watch_stat(&path)).await?;
                    self.tell(watcher);
                    found
                } else {
                    self.at(&path, self.client.check_stat(&path)).await?
                };
                let found = found.ok_or_else(|| refusal(&zk::Error::NoNode, &path))?;
                show_stat(Some(&found), &mut shown);
            }
            Order::Set { path, data, stat, version } => {
                let found = self.at(&path, self.client.set_data(&path, data.as_bytes(), version)).await?;
                show_stat(stat.then_some(&found), &mut shown);
            }
            Order::Create { path, data, mode, acl } => {
                let options = mode.with_acls(zk::Acls::new(&acl));
                let (_, sequence) =
                    self.at(&path, self.client.create(&path, data.as_bytes(), &options)).await?;
                let sequential = matches!(
                    mode,
                    zk::CreateMode::PersistentSequential | zk::CreateMode::EphemeralSequential
                );
                let number = if sequential { sequence.to_string() } else { String::new() };
                eprintln!("Created {path}{number}");
            }
            Order::Delete { path, version } => self.at(&path, self.client.delete(&path, version)).await?,
            Order::DeleteAll { path } => self.delete_all(&path).await?,
            Order::GetAcl { path, stat } => {
                let (acl, found) = self.at(&path, self.client.get_acl(&path)).await?;
                for entry in &acl {
                    show_acl(entry, &mut shown);
                }
                show_stat(stat.then_some(&found), &mut shown);
            }
            Order::SetAcl { path, acl, stat, version } => {
                let found = self.at(&path, self.client.set_acl(&path, &acl, version)).await?;
                show_stat(stat.then_some(&found), &mut shown);
            }
            Order::Sync { path } => {
                self.at(&path, self.client.sync(&path)).await?;
                shown.extend_from_slice(b"Sync is OK\n");
            }
            Order::AddAuth { scheme, auth } => {
                self.at("/", self.client.auth(&scheme, auth.as_bytes())).await?
            }
            Order::CountBelow { path } => {
                let count = self.at(&path, self.client.count_descendants_number(&path)).await?;
                shown.extend_from_slice(format!("{count}\n").as_bytes());
            }
            Order::Ephemerals { path } => {
                show_list(self.at(&path, self.client.list_ephemerals(&path)).await?, &mut shown);
            }
            Order::WhoAmI => {
                shown.extend_from_slice(b"Auth scheme: User\n");
                for user in self.at("/", self.client.list_auth_users()).await? {
                    shown.extend_from_slice(format!("{}: {}\n", user.scheme(), user.user()).as_bytes());
                }
            }
            Order::PrintWatches(change) => {
                if let Some(on) = change {
                    self.print_watches.store(on, Ordering::Relaxed);
                }
                let on = if self.print_watches.load(Ordering::Relaxed) { "on" } else { "off" };
                shown.extend_from_slice(format!("printwatches is {on}\n").as_bytes());
            }
            Order::Version => {
                shown.extend_from_slice(format!("ZooKeeper CLI version: {VERSION}\n").as_bytes())
            }
            Order::Help => eprint!("{}", order::usage()),
            Order::Quit => {}
        }
        Ok(tools::print_bytes(&shown)?)
    }

    async fn at<T>(
        &self,
        path: &str,
        asked: impl Future<Output = Result<T, zk::Error>>,
    ) -> Result<T, Failure> {
        Ok(asked.await.map_err(|error| refusal(&error, path))?)
    }

    /// A znode and all below it, in zkCli's order: each znode's children together, and then what is below each of them.
    async fn list_all(&self, path: &str, shown: &mut Vec<u8>) -> Result<(), Failure> {
        let mut children: HashMap<String, Vec<String>> = HashMap::new();
        let mut level = vec![path.to_owned()];
        while !level.is_empty() {
            let below = self.below(&level).await?;
            for (parent, below) in level.into_iter().zip(&below) {
                children.insert(parent, below.clone());
            }
            level = below.into_iter().flatten().collect();
        }
        let mut line = |path: &str| shown.extend_from_slice(format!("{path}\n").as_bytes());
        line(path);
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            let children = children.remove(&path).unwrap_or_default();
            children.iter().for_each(|child| line(child));
            waiting.extend(children.into_iter().rev());
        }
        Ok(())
    }

    /// Deletes children before their parents. A znode that somebody else deletes meanwhile is as good as deleted.
    async fn delete_all(&self, path: &str) -> Result<(), Failure> {
        let mut levels = vec![vec![path.to_owned()]];
        while let Some(last) = levels.last().filter(|last| !last.is_empty()) {
            let below = self.below(last).await?;
            levels.push(below.concat());
        }
        for level in levels.iter().rev() {
            for some in level.chunks(IN_FLIGHT_MAX) {
                try_join_all(some.iter().map(|path| async move {
                    match self.client.delete(path, None).await {
                        Ok(()) | Err(zk::Error::NoNode) => Ok(()),
                        Err(error) => Err(refusal(&error, path)),
                    }
                }))
                .await?;
            }
        }
        Ok(())
    }

    /// The paths of the children of each znode of a level, by name. A znode alone on its level must be there.
    async fn below(&self, level: &[String]) -> Result<Vec<Vec<String>>, Failure> {
        let mut below = Vec::with_capacity(level.len());
        for some in level.chunks(IN_FLIGHT_MAX) {
            let listed = try_join_all(some.iter().map(|path| async move {
                match self.client.list_children(path).await {
                    Ok(mut children) => {
                        children.sort();
                        let parent = path.trim_end_matches('/');
                        Ok(children.iter().map(|child| format!("{parent}/{child}")).collect())
                    }
                    // Gone since its parent was listed.
                    Err(zk::Error::NoNode) if level.len() > 1 => Ok(Vec::new()),
                    Err(error) => Err(refusal(&error, path)),
                }
            }));
            below.extend(listed.await?);
        }
        Ok(below)
    }

    /// Shows what a watch sees when it fires.
    fn tell(&self, watcher: zk::OneshotWatcher) {
        let print_watches = self.print_watches.clone();
        tokio::spawn(async move {
            let event = watcher.changed().await;
            let (state, kind) = match event.event_type {
                zk::EventType::NodeCreated => ("SyncConnected", "NodeCreated"),
                zk::EventType::NodeDeleted => ("SyncConnected", "NodeDeleted"),
                zk::EventType::NodeDataChanged => ("SyncConnected", "NodeDataChanged"),
                zk::EventType::NodeChildrenChanged => ("SyncConnected", "NodeChildrenChanged"),
                // The session is over, which the next command says.
                zk::EventType::Session => return,
            };
            if print_watches.load(Ordering::Relaxed) {
                // Nobody is there to hear of a closed output.
                let _ = tools::print(&event_lines(state, kind, Some(&event.path)));
            }
        });
    }
}

/// Requests under way at once.
const IN_FLIGHT_MAX: usize = 100;

/// What zkCli prints of an event.
fn event_lines(state: &str, kind: &str, path: Option<&str>) -> String {
    format!("\nWATCHER::\n\nWatchedEvent state:{state} type:{kind} path:{}\n", path.unwrap_or("null"))
}

/// zkCli's words for an error.
fn refusal(error: &zk::Error, path: &str) -> String {
    match error {
        zk::Error::NoNode => format!("Node does not exist: {path}"),
        zk::Error::NodeExists => format!("Node already exists: {path}"),
        zk::Error::NotEmpty => format!("Node not empty: {path}"),
        zk::Error::BadVersion => format!("version No is not valid : {path}"),
        zk::Error::NoAuth => format!("Insufficient permission : {path}"),
        zk::Error::InvalidAcl => format!("Acl is not valid : {path}"),
        zk::Error::NoChildrenForEphemerals => format!("Ephemerals cannot have children: {path}"),
        error => format!("{path}: {error}"),
    }
}

/// `[admin, brokers]`, by name.
fn show_list(mut names: Vec<String>, shown: &mut Vec<u8>) {
    names.sort();
    shown.extend_from_slice(format!("[{}]\n", names.join(", ")).as_bytes());
}

/// A line for who, and a line for what they may.
fn show_acl(acl: &zk::Acl, shown: &mut Vec<u8>) {
    let letters = PERMISSIONS.iter().filter(|(permission, _)| acl.permission().has(*permission));
    let letters: String = letters.map(|(_, letter)| *letter).collect();
    shown.extend_from_slice(format!("'{},'{}\n: {letters}\n", acl.scheme(), acl.id()).as_bytes());
}

fn show_stat(stat: Option<&zk::Stat>, shown: &mut Vec<u8>) {
    let Some(stat) = stat else { return };
    let mut lines = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        lines,
        "cZxid = {:#x}\nctime = {}\nmZxid = {:#x}\nmtime = {}\npZxid = {:#x}\ncversion = {}\ndataVersion = {}\n\
         aclVersion = {}\nephemeralOwner = {:#x}\ndataLength = {}\nnumChildren = {}\n",
        stat.czxid,
        java_date(stat.ctime),
        stat.mzxid,
        java_date(stat.mtime),
        stat.pzxid,
        stat.cversion,
        stat.version,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
    );
    shown.extend_from_slice(lines.as_bytes());
}

/// `Mon Nov 30 18:40:38 UTC 2026`
fn java_date(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => jiff::ZonedDateTime::new(time, jiff::tz::TimeZone::system())
            .strftime("%a %b %d %H:%M:%S %Z %Y")
            .to_string(),
        Err(_) => format!("{ms} ms"),
    }
}
