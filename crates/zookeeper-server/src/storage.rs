//! What survives a restart: a snapshot of the tree and the transactions since, in a format of our own.
//!
//! ```text
//! <dataDir>/ottla-1/lock
//! <dataDir>/ottla-1/snapshot.<zxid>      the tree as transaction <zxid> left it
//! <dataLogDir>/ottla-1/log.<zxid>        the transactions after <zxid>
//!
//! log       = "OTTLAZKL" zxid:8 chain:4  record*  zeros*
//! snapshot  = "OTTLAZKS" zxid:8 chain:4  record*
//! record    = length:4 checksum:4 payload
//! ```
//!
//! Each checksum (CRC-32) covers the one before it, across files: `checksum = crc(previous checksum, length, payload)`,
//! and a file's `chain` is the checksum that its first record covers. So a record is only ever read in its place:
//! behind a torn one nothing counts, stale bytes cannot come back to life, and a log that does not belong to the
//! snapshot beside it is noticed. Zeros behind the last record were written ahead, because a sync that need not
//! make a file longer is cheaper (73 against 184 us on ext4).
//!
//! A log is cut off by a snapshot: the next log is begun at the same transaction, the snapshot is written beside the
//! traffic, and once it is durable everything older is removed. So a start reads one snapshot and at most two logs.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ottla_files::{Entry, File as _, FileError, Files, Open};

use crate::acl::AclList;
use crate::jute::{JuteError, Reader, Writer};
use crate::protocol::{Acl, Password, SessionId, Zxid};
use crate::tree::{SessionTimeouts, Tree, Txn, TxnBody};
use crate::znodes::{Change, Misfit, Znode};

/// The directory within `dataDir` and `dataLogDir` that holds our files: 1 is the version of the format.
const DIRECTORY: &str = "ottla-1";
/// Where Apache ZooKeeper keeps its own, which we do not read.
const APACHE_DIRECTORY: &str = "version-2";

const LOG_MAGIC: &[u8; 8] = b"OTTLAZKL";
const SNAPSHOT_MAGIC: &[u8; 8] = b"OTTLAZKS";
const HEADER_BYTES: usize = 20;
const RECORD_HEADER_BYTES: usize = 8;

/// Zeros that are written ahead at a time.
const WRITE_AHEAD_BYTES: u64 = 64 * 1024;
/// A log is cut off when it is this long, or as long as the last snapshot if that is more: so a start replays little,
/// and writing snapshots never costs more than twice what the log itself does.
const LOG_BYTES_MIN: u64 = 2 * 1024 * 1024;
/// More than any file of ours may have: the whole tree is in memory when one is read.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// Why stored state cannot be taken up or added to.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is in use by another server: give each its own dataDir", .0.display())]
    InUse(PathBuf),
    #[error("{} is damaged at byte {at} ({why}); restore it from a backup, or remove {} to begin anew",
        path.display(), path.parent().unwrap_or(path).display())]
    Damaged { path: PathBuf, at: usize, why: String },
    #[error("{} does not continue what is stored beside it: files of different servers were mixed, or one is missing",
        .0.display())]
    NotContinuous(PathBuf),
    #[error("no thread can be started to write the log or a snapshot: {0}")]
    Thread(#[source] std::io::Error),
}

/// Appends records to bytes on their way to the log, and knows the checksum the next one covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain(u32);

impl Chain {
    /// What the first record of a first log covers.
    pub const START: Chain = Chain(0);

    fn over(self, payload: &[u8]) -> Chain {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        hasher.update(&(payload.len() as u32).to_be_bytes());
        hasher.update(payload);
        Chain(hasher.finalize())
    }

    /// Appends one record whose payload `write` writes.
    fn append(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Writer<'_>)) {
        let start = out.len();
        out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        write(&mut Writer::new(out));
        let payload = &out[start + RECORD_HEADER_BYTES..];
        let length = u32::try_from(payload.len()).expect("a transaction came in through a bounded frame");
        *self = self.over(payload);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        out[start + 4..start + RECORD_HEADER_BYTES].copy_from_slice(&self.0.to_be_bytes());
    }

    pub fn append_txn(&mut self, out: &mut Vec<u8>, txn: &Txn) {
        self.append(out, |writer| write_txn(writer, txn));
    }
}

fn header(magic: &[u8; 8], zxid: Zxid, chain: Chain) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&zxid.0.to_be_bytes());
    bytes.extend_from_slice(&chain.0.to_be_bytes());
    bytes
}

fn read_header(bytes: &[u8], magic: &[u8; 8]) -> Option<(Zxid, Chain)> {
    let header = bytes.get(..HEADER_BYTES)?.strip_prefix(magic)?;
    let mut reader = Reader::new(header);
    Some((Zxid(reader.long().ok()?), Chain(reader.int().ok()? as u32)))
}

/// Walks over the records of a file, as far as the chain holds.
struct Records<'a> {
    bytes: &'a [u8],
    /// Where the next record would be: what stands before it is whole.
    at: usize,
    chain: Chain,
}

impl<'a> Records<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.bytes.get(self.at..)?);
        let length = usize::try_from(reader.int().ok()?).ok().filter(|length| *length > 0)?;
        let checksum = Chain(reader.int().ok()? as u32);
        let start = self.at + RECORD_HEADER_BYTES;
        let payload = self.bytes.get(start..start.checked_add(length)?)?;
        if self.chain.over(payload) != checksum {
            return None;
        }
        self.chain = checksum;
        self.at = start + length;
        Some(payload)
    }
}

// ---- payloads ----

fn write_txn(writer: &mut Writer<'_>, txn: &Txn) {
    writer.long(txn.zxid.0);
    writer.long(txn.time);
    writer.long(txn.session.0);
    match &txn.body {
        TxnBody::Epoch => writer.byte(0),
        TxnBody::OpenSession { timeout_ms, password } => {
            writer.byte(1);
            writer.int(*timeout_ms as i32);
            writer.buffer(Some(password));
        }
        TxnBody::CloseSession => writer.byte(2),
        TxnBody::Changes(changes) => {
            writer.byte(3);
            writer.vector(changes, write_change);
        }
    }
}

fn read_txn(payload: &[u8]) -> Result<Txn, JuteError> {
    let mut reader = Reader::new(payload);
    let (zxid, time, session) = (Zxid(reader.long()?), reader.long()?, SessionId(reader.long()?));
    let body = match reader.byte()? {
        0 => TxnBody::Epoch,
        1 => TxnBody::OpenSession { timeout_ms: reader.int()? as u32, password: read_password(&mut reader)? },
        2 => TxnBody::CloseSession,
        3 => TxnBody::Changes(reader.vector(1, read_change)?),
        other => return Err(JuteError::UnknownValue(other.into())),
    };
    Ok(Txn { zxid, time, session, body })
}

fn read_password(reader: &mut Reader<'_>) -> Result<Password, JuteError> {
    let bytes = reader.buffer()?.ok_or(JuteError::Null)?;
    bytes.try_into().map_err(|_| JuteError::Truncated { wanted: size_of::<Password>(), left: bytes.len() })
}

fn write_change(writer: &mut Writer<'_>, change: &Change) {
    match change {
        Change::Create { path, data, acl, owner } => {
            writer.byte(1);
            writer.string(path);
            writer.buffer(data.as_deref());
            write_acl(writer, acl);
            writer.long(*owner);
        }
        Change::Delete { path } => {
            writer.byte(2);
            writer.string(path);
        }
        Change::SetData { path, data, version } => {
            writer.byte(3);
            writer.string(path);
            writer.buffer(data.as_deref());
            writer.int(*version);
        }
        Change::SetAcl { path, acl, version } => {
            writer.byte(4);
            writer.string(path);
            write_acl(writer, acl);
            writer.int(*version);
        }
        Change::Check => writer.byte(5),
    }
}

fn read_change(reader: &mut Reader<'_>) -> Result<Change, JuteError> {
    Ok(match reader.byte()? {
        1 => Change::Create {
            path: reader.string()?.into(),
            data: read_data(reader)?,
            acl: read_acl(reader)?,
            owner: reader.long()?,
        },
        2 => Change::Delete { path: reader.string()?.into() },
        3 => Change::SetData {
            path: reader.string()?.into(),
            data: read_data(reader)?,
            version: reader.int()?,
        },
        4 => Change::SetAcl { path: reader.string()?.into(), acl: read_acl(reader)?, version: reader.int()? },
        5 => Change::Check,
        other => return Err(JuteError::UnknownValue(other.into())),
    })
}

fn read_data(reader: &mut Reader<'_>) -> Result<Option<Bytes>, JuteError> {
    Ok(reader.buffer()?.map(Bytes::copy_from_slice))
}

/// An empty list stands for the open ACL: no znode has an empty one.
fn write_acl(writer: &mut Writer<'_>, acl: &AclList) {
    match acl {
        AclList::Open => writer.int(0),
        AclList::Of(list) => writer.vector(list, |writer, acl| acl.write(writer)),
    }
}

fn read_acl(reader: &mut Reader<'_>) -> Result<AclList, JuteError> {
    let list = Acl::read_vector(reader)?;
    Ok(if list.is_empty() { AclList::Open } else { AclList::new(list) })
}

// ---- snapshots ----

/// The tree as one file. Taken while nothing changes it; writing it down can wait.
pub fn snapshot(tree: &Tree, chain: Chain) -> Vec<u8> {
    let mut out = header(SNAPSHOT_MAGIC, tree.zxid(), chain);
    let mut records = chain;
    records.append(&mut out, |writer| {
        writer.long(tree.last_session().0);
        writer.long(tree.sessions().len() as i64);
        writer.long(tree.znodes().count() as i64);
    });
    for (id, timeout_ms, password) in tree.sessions() {
        records.append(&mut out, |writer| {
            writer.long(id.0);
            writer.int(timeout_ms as i32);
            writer.buffer(Some(password));
        });
    }
    for (path, znode) in tree.znodes().iter() {
        records.append(&mut out, |writer| {
            writer.string(path);
            writer.buffer(znode.data.as_deref());
            write_acl(writer, &znode.acl);
            for zxid in [znode.czxid, znode.mzxid, znode.pzxid] {
                writer.long(zxid.0);
            }
            for long in [znode.ctime, znode.mtime, znode.owner] {
                writer.long(long);
            }
            for int in [znode.version, znode.aversion, znode.creates] {
                writer.int(int);
            }
        });
    }
    out
}

fn read_znode(payload: &[u8]) -> Result<(Arc<str>, Znode), JuteError> {
    let mut reader = Reader::new(payload);
    let path = reader.string()?.into();
    let (data, acl) = (read_data(&mut reader)?, read_acl(&mut reader)?);
    let znode = Znode {
        data,
        acl,
        czxid: Zxid(reader.long()?),
        mzxid: Zxid(reader.long()?),
        pzxid: Zxid(reader.long()?),
        ctime: reader.long()?,
        mtime: reader.long()?,
        owner: reader.long()?,
        version: reader.int()?,
        aversion: reader.int()?,
        creates: reader.int()?,
        children: Default::default(),
    };
    Ok((path, znode))
}

/// What is wrong with a snapshot, and where.
enum Unreadable {
    Ended,
    Jute(JuteError),
    Misfit(Misfit),
}

impl From<JuteError> for Unreadable {
    fn from(error: JuteError) -> Self {
        Unreadable::Jute(error)
    }
}

impl From<Misfit> for Unreadable {
    fn from(misfit: Misfit) -> Self {
        Unreadable::Misfit(misfit)
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::Ended => f.write_str("it ends too early, or a checksum is wrong"),
            Unreadable::Jute(error) => error.fmt(f),
            Unreadable::Misfit(misfit) => misfit.fmt(f),
        }
    }
}

fn load_snapshot(records: &mut Records<'_>, tree: &mut Tree, zxid: Zxid) -> Result<(), Unreadable> {
    let mut reader = Reader::new(records.next().ok_or(Unreadable::Ended)?);
    tree.restore_numbers(zxid, SessionId(reader.long()?));
    let (sessions, znodes) = (reader.long()?, reader.long()?);
    for _ in 0..sessions {
        let mut reader = Reader::new(records.next().ok_or(Unreadable::Ended)?);
        let (id, timeout_ms) = (SessionId(reader.long()?), reader.int()? as u32);
        tree.restore_session(id, timeout_ms, read_password(&mut reader)?);
    }
    for _ in 0..znodes {
        let (path, znode) = read_znode(records.next().ok_or(Unreadable::Ended)?)?;
        tree.restore_znode(path, znode)?;
    }
    Ok(())
}

// ---- recovery ----

/// What a start found.
#[derive(Debug)]
pub struct Recovered<F: Files> {
    pub tree: Tree,
    /// Where the log continues.
    pub chain: Chain,
    pub log: LogFile<F>,
    pub transactions: usize,
    /// Bytes behind the last whole record: of writes that a crash cut short, never answered.
    pub torn_bytes: usize,
}

/// Where one server keeps its state. Holds the directory's lock for as long as it lives.
#[derive(Debug)]
pub struct Storage<F: Files> {
    files: F,
    snapshots: PathBuf,
    logs: PathBuf,
    _lock: F::Lock,
}

/// The log that is being written.
#[derive(Debug)]
pub struct LogFile<F: Files> {
    file: Arc<F::File>,
    /// Where the next record goes.
    end: u64,
    /// Up to here the file has been given its bytes; zeros from `end` on.
    allocated: u64,
    /// At this length it is cut off.
    bytes_max: u64,
}

fn numbered(entries: &[Entry], prefix: &str) -> Vec<Zxid> {
    let number = |entry: &Entry| i64::from_str_radix(entry.name.strip_prefix(prefix)?, 16).ok().map(Zxid);
    let mut numbers: Vec<Zxid> = entries.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn log_path(directory: &Path, zxid: Zxid) -> PathBuf {
    directory.join(format!("log.{:016x}", zxid.0))
}

fn snapshot_path(directory: &Path, zxid: Zxid) -> PathBuf {
    directory.join(format!("snapshot.{:016x}", zxid.0))
}

impl<F: Files> Storage<F> {
    /// Takes the directories, and reads what is there into a tree. The log that comes back continues it.
    pub fn open(
        files: F,
        data_dir: &Path,
        data_log_dir: &Path,
        timeouts: SessionTimeouts,
    ) -> Result<(Storage<F>, Recovered<F>), StorageError> {
        let (snapshots, logs) = (data_dir.join(DIRECTORY), data_log_dir.join(DIRECTORY));
        files.create_directory(&snapshots)?;
        files.create_directory(&logs)?;
        let lock = files.lock(&snapshots.join("lock")).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => StorageError::InUse(snapshots.clone()),
            _ => error.into(),
        })?;
        let storage = Storage { files, snapshots, logs, _lock: lock };
        let recovered = storage.recover(timeouts)?;
        Ok((storage, recovered))
    }

    fn recover(&self, timeouts: SessionTimeouts) -> Result<Recovered<F>, StorageError> {
        let mut tree = Tree::new(timeouts);
        let mut chain = Chain::START;
        let mut snapshot_bytes = 0;
        if let Some(&zxid) = numbered(&self.files.list(&self.snapshots)?, "snapshot.").last() {
            let path = snapshot_path(&self.snapshots, zxid);
            let bytes = self.files.read(&path, FILE_BYTES_MAX)?;
            let damaged = |at, why: &dyn ToString| StorageError::Damaged {
                path: path.clone(),
                at,
                why: why.to_string(),
            };
            chain = match read_header(&bytes, SNAPSHOT_MAGIC) {
                Some((stored, chain)) if stored == zxid => chain,
                _ => return Err(damaged(0, &"it has no header of ours")),
            };
            let mut records = Records { bytes: &bytes, at: HEADER_BYTES, chain };
            load_snapshot(&mut records, &mut tree, zxid).map_err(|why| damaged(records.at, &why))?;
            snapshot_bytes = bytes.len() as u64;
        }

        let covered = tree.zxid();
        let mut numbers = numbered(&self.files.list(&self.logs)?, "log.");
        numbers.retain(|zxid| *zxid >= covered);
        let has_snapshot = snapshot_bytes > 0;
        if numbers.first().map_or(has_snapshot, |first| *first != covered) {
            return Err(StorageError::NotContinuous(log_path(&self.logs, covered)));
        }
        let (mut transactions, mut torn_bytes) = (0, 0);
        for (index, &zxid) in numbers.iter().enumerate() {
            let path = log_path(&self.logs, zxid);
            let bytes = self.files.read(&path, FILE_BYTES_MAX)?;
            let is_last = index + 1 == numbers.len();
            let is_begun =
                bytes.get(..HEADER_BYTES).is_some_and(|header| header.iter().any(|byte| *byte != 0));
            if is_last && !is_begun && !(index == 0 && has_snapshot) {
                // A crash came while it was begun, so nothing was answered from it.
                torn_bytes += bytes.len();
                break;
            }
            if read_header(&bytes, LOG_MAGIC) != Some((zxid, chain)) {
                return Err(StorageError::NotContinuous(path));
            }
            let mut records = Records { bytes: &bytes, at: HEADER_BYTES, chain };
            while let Some(payload) = records.next() {
                let at = records.at - payload.len() - RECORD_HEADER_BYTES;
                let damaged = |why: &dyn ToString| StorageError::Damaged {
                    path: path.clone(),
                    at,
                    why: why.to_string(),
                };
                let txn = read_txn(payload).map_err(|error| damaged(&error))?;
                tree.replay(&txn).map_err(|misfit| damaged(&misfit))?;
                transactions += 1;
            }
            chain = records.chain;
            let torn = bytes[records.at..].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if !is_last {
                if torn > 0 {
                    let why = "a log that follows it was begun, so this is no torn end".to_owned();
                    return Err(StorageError::Damaged { path, at: records.at, why });
                }
                continue;
            }
            torn_bytes += torn;
            let file = self.files.open(&path, Open::Write)?;
            let mut allocated = bytes.len() as u64;
            if torn > 0 {
                allocated = records.at as u64;
                file.truncate(allocated)?;
                file.sync()?;
            }
            let log = LogFile {
                file: Arc::new(file),
                end: records.at as u64,
                allocated,
                bytes_max: bytes_max(snapshot_bytes),
            };
            return Ok(Recovered { tree, chain, log, transactions, torn_bytes });
        }
        let log = self.begin_log(numbers.last().copied().unwrap_or(covered), chain, snapshot_bytes)?;
        Ok(Recovered { tree, chain, log, transactions, torn_bytes })
    }

    /// Begins the log of what comes after `zxid`, and makes that survive a crash.
    pub fn follow_log(
        &self,
        zxid: Zxid,
        chain: Chain,
        snapshot_bytes: u64,
    ) -> Result<LogFile<F>, StorageError> {
        let log = self.begin_log(zxid, chain, snapshot_bytes)?;
        log.sync()?;
        self.files.sync_directory(&self.logs)?;
        Ok(log)
    }

    fn begin_log(&self, zxid: Zxid, chain: Chain, snapshot_bytes: u64) -> Result<LogFile<F>, StorageError> {
        let file = self.files.open(&log_path(&self.logs, zxid), Open::Truncate)?;
        let mut log =
            LogFile { file: Arc::new(file), end: 0, allocated: 0, bytes_max: bytes_max(snapshot_bytes) };
        log.append(&header(LOG_MAGIC, zxid, chain))?;
        Ok(log)
    }

    /// Makes the names of files and directories survive a crash.
    ///
    /// Of those that were there already too: an earlier start may have made them and been killed before it got here.
    pub fn sync_names(&self) -> Result<(), StorageError> {
        let mut directories = vec![self.logs.as_path()];
        directories.extend((self.snapshots != self.logs).then_some(self.snapshots.as_path()));
        for directory in directories {
            // Ours, the configured one, and the one that has its name.
            for path in directory.ancestors().take(3).filter(|path| !path.as_os_str().is_empty()) {
                self.files.sync_directory(path)?;
            }
        }
        Ok(())
    }

    /// Writes down a [`snapshot`] of the tree at `zxid`, then removes what it makes superfluous.
    pub fn keep_snapshot(&self, zxid: Zxid, bytes: &[u8]) -> Result<(), StorageError> {
        self.files.replace(&snapshot_path(&self.snapshots, zxid), bytes)?;
        for old in numbered(&self.files.list(&self.snapshots)?, "snapshot.").iter().filter(|old| **old < zxid)
        {
            self.files.remove_file(&snapshot_path(&self.snapshots, *old))?;
        }
        for old in numbered(&self.files.list(&self.logs)?, "log.").iter().filter(|old| **old < zxid) {
            self.files.remove_file(&log_path(&self.logs, *old))?;
        }
        Ok(())
    }

    /// Whether `data_dir` also holds data of Apache ZooKeeper, which is not read.
    pub fn is_beside_apache(&self, data_dir: &Path) -> Result<bool, StorageError> {
        Ok(self.files.list(data_dir)?.iter().any(|entry| entry.name == APACHE_DIRECTORY))
    }

    /// Bytes in files, for the operator: snapshots and logs.
    pub fn sizes(&self) -> Result<(u64, u64), StorageError> {
        let sum = |directory: &Path, prefix: &str| -> Result<u64, FileError> {
            let entries = self.files.list(directory)?;
            Ok(entries.iter().filter(|entry| entry.name.starts_with(prefix)).map(|entry| entry.bytes).sum())
        };
        Ok((sum(&self.snapshots, "snapshot.")?, sum(&self.logs, "log.")?))
    }
}

fn bytes_max(snapshot_bytes: u64) -> u64 {
    snapshot_bytes.max(LOG_BYTES_MIN)
}

impl<F: Files> LogFile<F> {
    /// Writes whole records at the end.
    pub fn append(&mut self, records: &[u8]) -> Result<(), FileError> {
        static ZEROS: [u8; WRITE_AHEAD_BYTES as usize] = [0; WRITE_AHEAD_BYTES as usize];
        let end = self.end + records.len() as u64;
        if end > self.allocated {
            self.file.write_all_at(&mut [IoSlice::new(records), IoSlice::new(&ZEROS)], self.end)?;
            self.allocated = end + WRITE_AHEAD_BYTES;
        } else {
            self.file.write_all_at(&mut [IoSlice::new(records)], self.end)?;
        }
        self.end = end;
        Ok(())
    }

    pub fn sync(&self) -> Result<(), FileError> {
        self.file.sync()
    }

    /// The file itself, for a sync that runs beside the writing.
    pub fn file(&self) -> Arc<F::File> {
        self.file.clone()
    }

    /// Whether it is time for a snapshot and another log.
    pub fn is_full(&self) -> bool {
        self.end >= self.bytes_max
    }
}
