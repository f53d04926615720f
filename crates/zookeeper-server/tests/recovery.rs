//! Crashes at any moment, on a disk that keeps only what was synced: what was acknowledged is there afterwards, and
//! what is there is a prefix of what happened.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ottla_files::{Fault, Files as _, HostileDisk, Open};
use ottla_zookeeper_server::SessionTimeouts;
use ottla_zookeeper_server::protocol::{
    Acl, ConnectRequest, Create, Id, Lifetime, Request, Sequential, SessionId, WriteOp, Xid, Zxid, perms,
};
use ottla_zookeeper_server::storage::{Chain, LogFile, Recovered, Storage, StorageError, snapshot};
use ottla_zookeeper_server::tree::{Attach, Effect, Now, Tree, Txn};
use proptest::prelude::*;

const TIMEOUTS: SessionTimeouts = SessionTimeouts { min_ms: 100, max_ms: 10_000 };
const SNAPSHOT_HEADER_BYTES: usize = 20;

#[derive(Debug, Clone)]
enum Step {
    Create {
        path: usize,
        lifetime: Lifetime,
        sequential: Sequential,
    },
    Delete {
        path: usize,
    },
    SetData {
        path: usize,
        bytes: usize,
    },
    /// Creates two, or one and fails.
    Multi {
        first: usize,
        second: usize,
    },
    CloseSession,
    Append,
    Sync,
    /// A snapshot is taken and another log begun.
    CutOff,
}

const PATHS: [&str; 6] = ["/a", "/a/b", "/a/c", "/d", "/d/e", "/f"];

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    let lifetime = prop_oneof![3 => Just(Lifetime::Persistent), 1 => Just(Lifetime::Ephemeral)];
    let sequential = prop_oneof![3 => Just(Sequential::No), 1 => Just(Sequential::Yes)];
    prop_oneof![
        6 => (path.clone(), lifetime, sequential).prop_map(|(path, lifetime, sequential)| Step::Create { path, lifetime, sequential }),
        2 => path.clone().prop_map(|path| Step::Delete { path }),
        3 => (path.clone(), 0..2000_usize).prop_map(|(path, bytes)| Step::SetData { path, bytes }),
        2 => (path.clone(), path).prop_map(|(first, second)| Step::Multi { first, second }),
        1 => Just(Step::CloseSession),
        4 => Just(Step::Append),
        4 => Just(Step::Sync),
        1 => Just(Step::CutOff),
    ]
}

fn create(path: usize, lifetime: Lifetime, sequential: Sequential) -> WriteOp<'static> {
    let acl = vec![Acl { perms: perms::ALL, id: Id::new("world", "anyone") }];
    let mode = Some((lifetime, sequential));
    WriteOp::Create(Create { path: PATHS[path], data: Some(b"data"), acl, mode, with_stat: false })
}

/// One life of a server, without threads: what it decided, wrote and synced.
struct Life {
    storage: Storage<HostileDisk>,
    log: LogFile<HostileDisk>,
    tree: Tree,
    chain: Chain,
    pending: Vec<u8>,
    pending_txns: usize,
    session: SessionId,
    elapsed_ms: u64,
    names_synced: bool,
    log_begins: Zxid,
}

/// What must be true after a crash: all transactions of all lives, and how many of them were acknowledged.
#[derive(Default)]
struct Model {
    txns: Vec<Txn>,
    /// Handed to the disk: may be there.
    written: usize,
    /// Synced: must be there.
    acknowledged: usize,
}

fn open(disk: &HostileDisk) -> Result<(Storage<HostileDisk>, Recovered<HostileDisk>), StorageError> {
    Storage::open(disk.clone(), Path::new("/data"), Path::new("/data"), TIMEOUTS)
}

impl Life {
    fn begin(disk: &HostileDisk, model: &mut Model) -> Result<Life, StorageError> {
        let (storage, recovered) = open(disk)?;
        let mut life = Life {
            storage,
            log: recovered.log,
            tree: recovered.tree,
            chain: recovered.chain,
            pending: Vec::new(),
            pending_txns: 0,
            session: SessionId::NONE,
            elapsed_ms: 0,
            names_synced: false,
            log_begins: Zxid(0),
        };
        let mut effects = Vec::new();
        life.tree.start(life.now(), &mut effects);
        life.attach(&mut effects);
        life.take(effects, model);
        Ok(life)
    }

    fn now(&self) -> Now {
        Now { elapsed_ms: self.elapsed_ms, wall_ms: 1_700_000_000_000 + self.elapsed_ms as i64 }
    }

    fn attach(&mut self, effects: &mut Vec<Effect>) {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout_ms: 1000,
            session: SessionId::NONE,
            password: Vec::new(),
            read_only: None,
        };
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match self.tree.attach(&request, peer, [7; 16], self.now(), effects) {
            Attach::Attached { response, .. } => self.session = response.session,
            refused => panic!("{refused:?}"),
        }
    }

    fn take(&mut self, effects: Vec<Effect>, model: &mut Model) {
        for effect in effects {
            if let Effect::Log(txn) = effect {
                self.chain.append_txn(&mut self.pending, &txn);
                self.pending_txns += 1;
                model.txns.push(txn);
            }
        }
    }

    fn append(&mut self, model: &mut Model) -> Result<(), StorageError> {
        // A write that fails may still have written a part.
        model.written += std::mem::take(&mut self.pending_txns);
        self.log.append(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    fn sync(&mut self, model: &mut Model) -> Result<(), StorageError> {
        self.log.sync()?;
        if !self.names_synced {
            self.storage.sync_names()?;
            self.names_synced = true;
        }
        model.acknowledged = model.written;
        Ok(())
    }

    fn request(&mut self, request: Request<'_>, model: &mut Model) {
        self.elapsed_ms += 1;
        let mut effects = Vec::new();
        self.tree.handle(self.session, Xid(1), &request, self.now(), &mut effects);
        if request == Request::CloseSession {
            self.attach(&mut effects);
        }
        self.take(effects, model);
    }

    fn step(&mut self, step: &Step, model: &mut Model) -> Result<(), StorageError> {
        let data = [b'x'; 2000];
        match *step {
            Step::Create { path, lifetime, sequential } => {
                self.request(Request::Write(create(path, lifetime, sequential)), model);
            }
            Step::Delete { path } => {
                self.request(Request::Write(WriteOp::Delete { path: PATHS[path], version: -1 }), model)
            }
            Step::SetData { path, bytes } => {
                let op = WriteOp::SetData { path: PATHS[path], data: Some(&data[..bytes]), version: -1 };
                self.request(Request::Write(op), model);
            }
            Step::Multi { first, second } => {
                let op = |path| create(path, Lifetime::Persistent, Sequential::No);
                self.request(Request::Multi(vec![op(first), op(second)]), model);
            }
            Step::CloseSession => self.request(Request::CloseSession, model),
            Step::Append => self.append(model)?,
            Step::Sync => self.sync(model)?,
            // A log is only cut off when it is full, so never where it begins.
            Step::CutOff if self.tree.zxid() == self.log_begins => {}
            Step::CutOff => {
                self.append(model)?;
                self.sync(model)?;
                let bytes = snapshot(&self.tree, self.chain);
                self.log_begins = self.tree.zxid();
                self.log = self.storage.follow_log(self.tree.zxid(), self.chain, bytes.len() as u64)?;
                self.storage.keep_snapshot(self.tree.zxid(), &bytes)?;
            }
        }
        Ok(())
    }
}

/// The tree after the first `count` transactions, as a snapshot would have it, without its number.
fn model_content(txns: &[Txn], count: usize) -> Vec<u8> {
    let mut tree = Tree::new(TIMEOUTS);
    let (mut chain, mut records) = (Chain::START, Vec::new());
    for txn in &txns[..count] {
        tree.replay(txn).unwrap();
        chain.append_txn(&mut records, txn);
    }
    snapshot(&tree, chain).split_off(SNAPSHOT_HEADER_BYTES)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_survives_any_crash(
        seed in any::<u64>(),
        lives in prop::collection::vec((prop::collection::vec(step(), 0..40), 0..60_u32), 1..4),
    ) {
        let disk = HostileDisk::new(seed);
        let mut model = Model::default();
        for (steps, calls_until_death) in lives {
            // From some call on the disk refuses everything: the process dies at that moment.
            disk.inject(Fault { after: calls_until_death, count: u32::MAX, kind: ErrorKind::Other });
            if let Ok(mut life) = Life::begin(&disk, &mut model) {
                for step in &steps {
                    if life.step(step, &mut model).is_err() {
                        break;
                    }
                }
            }
            disk.crash();

            let (_storage, recovered) = open(&disk).unwrap();
            let content = snapshot(&recovered.tree, recovered.chain).split_off(SNAPSHOT_HEADER_BYTES);
            let kept = (model.acknowledged..=model.written).rev().find(|count| model_content(&model.txns, *count) == content);
            let Some(kept) = kept else {
                return Err(TestCaseError::fail(format!(
                    "the tree is that of no prefix from {} (acknowledged) to {} (written)", model.acknowledged, model.written
                )));
            };
            model.txns.truncate(kept);
            (model.written, model.acknowledged) = (kept, kept);
        }
    }

    #[test]
    fn a_log_cut_at_any_byte_is_a_prefix(steps in prop::collection::vec(step(), 1..30), cut in any::<prop::sample::Index>(), flip in any::<bool>()) {
        let disk = HostileDisk::new(1);
        let mut model = Model::default();
        let mut life = Life::begin(&disk, &mut model).unwrap();
        for step in steps.iter().filter(|step| !matches!(step, Step::CutOff)) {
            life.step(step, &mut model).unwrap();
        }
        life.append(&mut model).unwrap();
        life.sync(&mut model).unwrap();
        drop(life);

        let path = Path::new("/data/ottla-1/log.0000000000000000");
        let mut bytes = disk.read(path, u64::MAX).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let at = SNAPSHOT_HEADER_BYTES + cut.index(end - SNAPSHOT_HEADER_BYTES);
        if flip { bytes[at] ^= 0x40 } else { bytes.truncate(at) }
        disk.replace(path, &bytes).unwrap();

        let (_storage, recovered) = open(&disk).unwrap();
        let content = snapshot(&recovered.tree, recovered.chain).split_off(SNAPSHOT_HEADER_BYTES);
        prop_assert!(recovered.transactions <= model.txns.len());
        prop_assert_eq!(model_content(&model.txns, recovered.transactions), content);
    }
}

#[test]
fn damage_that_no_crash_explains_stops_the_start() {
    let prepare = || {
        let disk = HostileDisk::new(1);
        let mut model = Model::default();
        let mut life = Life::begin(&disk, &mut model).unwrap();
        for step in [
            Step::Create { path: 0, lifetime: Lifetime::Persistent, sequential: Sequential::No },
            Step::CutOff,
        ] {
            life.step(&step, &mut model).unwrap();
        }
        drop(life);
        disk
    };
    let directory = Path::new("/data/ottla-1");
    let file = |disk: &HostileDisk, prefix: &str| {
        let entries = disk.list(directory).unwrap();
        directory.join(&entries.iter().find(|entry| entry.name.starts_with(prefix)).unwrap().name)
    };

    let disk = prepare();
    disk.remove_file(&file(&disk, "log.")).unwrap();
    assert!(
        matches!(open(&disk).unwrap_err(), StorageError::NotContinuous(_)),
        "the log after the snapshot is missing"
    );

    let disk = prepare();
    let path = file(&disk, "snapshot.");
    let mut bytes = disk.read(&path, u64::MAX).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.replace(&path, &bytes).unwrap();
    assert!(
        matches!(open(&disk).unwrap_err(), StorageError::Damaged { .. }),
        "a bit of the snapshot is wrong"
    );

    let disk = prepare();
    disk.replace(&file(&disk, "log."), b"OTTLAZKL, but of another server entirely").unwrap();
    assert!(
        matches!(open(&disk).unwrap_err(), StorageError::NotContinuous(_)),
        "the log is another server's"
    );

    let disk = prepare();
    let kept = open(&disk).unwrap();
    assert!(matches!(open(&disk).unwrap_err(), StorageError::InUse(_)), "two servers at once");
    drop(kept);
    disk.open(&directory.join("unrelated"), Open::Create).unwrap();
    open(&disk).unwrap();
}
