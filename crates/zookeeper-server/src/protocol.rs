//! What travels between a ZooKeeper client and this server: requests as they are read, answers as they are
//! written. Operation codes, error codes and record layouts are those of ZooKeeper 3.9.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::jute::{JuteError, Reader, Writer};

/// The number of a transaction: epoch in the upper half, a counter in the lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Zxid(pub i64);

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub i64);

impl SessionId {
    /// What a client without a session sends, and what a refused one is given.
    pub const NONE: SessionId = SessionId(0);
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// The client's number for a request, echoed in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid(pub i32);

impl Xid {
    /// Marks a watch event among the answers.
    pub const NOTIFICATION: Xid = Xid(-1);
    pub const PING: Xid = Xid(-2);
}

/// Proves ownership of a session when a client re-attaches.
pub type Password = [u8; 16];

/// A client's first frame. `read_only` is absent in clients older than 3.4, and then in the answer too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    pub protocol_version: i32,
    pub last_zxid_seen: Zxid,
    pub timeout_ms: i32,
    pub session: SessionId,
    pub password: Vec<u8>,
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    pub fn read(frame: &[u8]) -> Result<ConnectRequest, JuteError> {
        let mut reader = Reader::new(frame);
        Ok(ConnectRequest {
            protocol_version: reader.int()?,
            last_zxid_seen: Zxid(reader.long()?),
            timeout_ms: reader.int()?,
            session: SessionId(reader.long()?),
            password: reader.buffer()?.unwrap_or_default().to_vec(),
            read_only: if reader.left() > 0 { Some(reader.boolean()?) } else { None },
        })
    }
}

/// The answer to a [`ConnectRequest`]. A session of zero says that the one asked for is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    pub timeout_ms: i32,
    pub session: SessionId,
    pub password: Password,
}

impl ConnectResponse {
    pub const EXPIRED: ConnectResponse =
        ConnectResponse { timeout_ms: 0, session: SessionId::NONE, password: [0; 16] };

    pub fn write(&self, writer: &mut Writer<'_>, with_read_only: bool) {
        writer.int(0);
        writer.int(self.timeout_ms);
        writer.long(self.session.0);
        writer.buffer(Some(&self.password));
        if with_read_only {
            writer.boolean(false);
        }
    }
}

/// Why an operation was refused, in ZooKeeper's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    RuntimeInconsistency,
    MarshallingError,
    Unimplemented,
    BadArguments,
    NoNode,
    NoAuth,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NotEmpty,
    SessionExpired,
    InvalidAcl,
    AuthFailed,
    NoWatcher,
    ReconfigDisabled,
}

impl ErrorCode {
    pub fn code(self) -> i32 {
        match self {
            ErrorCode::RuntimeInconsistency => -2,
            ErrorCode::MarshallingError => -5,
            ErrorCode::Unimplemented => -6,
            ErrorCode::BadArguments => -8,
            ErrorCode::NoNode => -101,
            ErrorCode::NoAuth => -102,
            ErrorCode::BadVersion => -103,
            ErrorCode::NoChildrenForEphemerals => -108,
            ErrorCode::NodeExists => -110,
            ErrorCode::NotEmpty => -111,
            ErrorCode::SessionExpired => -112,
            ErrorCode::InvalidAcl => -114,
            ErrorCode::AuthFailed => -115,
            ErrorCode::NoWatcher => -121,
            ErrorCode::ReconfigDisabled => -123,
        }
    }
}

/// A znode's metadata as clients see it. Times are milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    pub czxid: Zxid,
    pub mzxid: Zxid,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    /// Changes to the list of children: every creation and every deletion counts one.
    pub cversion: i32,
    pub aversion: i32,
    /// The session of an ephemeral znode, 0 otherwise.
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub num_children: i32,
    pub pzxid: Zxid,
}

impl Stat {
    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.long(self.czxid.0);
        writer.long(self.mzxid.0);
        writer.long(self.ctime);
        writer.long(self.mtime);
        writer.int(self.version);
        writer.int(self.cversion);
        writer.int(self.aversion);
        writer.long(self.ephemeral_owner);
        writer.int(self.data_length);
        writer.int(self.num_children);
        writer.long(self.pzxid.0);
    }
}

/// Permission bits of an [`Acl`].
pub mod perms {
    pub const READ: i32 = 1;
    pub const WRITE: i32 = 1 << 1;
    pub const CREATE: i32 = 1 << 2;
    pub const DELETE: i32 = 1 << 3;
    pub const ADMIN: i32 = 1 << 4;
    pub const ALL: i32 = READ | WRITE | CREATE | DELETE | ADMIN;
}

/// Who somebody is, within one authentication scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id {
    pub scheme: String,
    pub id: String,
}

impl Id {
    pub fn new(scheme: &str, id: &str) -> Id {
        Id { scheme: scheme.to_owned(), id: id.to_owned() }
    }
}

/// What one identity may do with a znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    pub perms: i32,
    pub id: Id,
}

impl Acl {
    /// Fewest bytes an ACL takes: its bits and two string lengths.
    const SIZE_MIN: usize = 12;

    pub fn read(reader: &mut Reader<'_>) -> Result<Acl, JuteError> {
        let (perms, scheme) = (reader.int()?, reader.nullable_string()?);
        // kazoo writes an empty string, such as the id of `auth`, as null.
        let id = reader.nullable_string()?;
        Ok(Acl { perms, id: Id::new(scheme.unwrap_or_default(), id.unwrap_or_default()) })
    }

    pub fn read_vector(reader: &mut Reader<'_>) -> Result<Vec<Acl>, JuteError> {
        reader.vector(Acl::SIZE_MIN, Acl::read)
    }

    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.int(self.perms);
        writer.string(&self.id.scheme);
        writer.string(&self.id.id);
    }
}

/// The numbers of ZooKeeper's operations (`ZooDefs.OpCode`).
pub mod op {
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const RECONFIG: i32 = 16;
    pub const CHECK_WATCHES: i32 = 17;
    pub const REMOVE_WATCHES: i32 = 18;
    pub const CREATE_CONTAINER: i32 = 19;
    pub const CREATE_TTL: i32 = 21;
    pub const MULTI_READ: i32 = 22;
    pub const AUTH: i32 = 100;
    pub const SET_WATCHES: i32 = 101;
    pub const SASL: i32 = 102;
    pub const GET_EPHEMERALS: i32 = 103;
    pub const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub const SET_WATCHES2: i32 = 105;
    pub const ADD_WATCH: i32 = 106;
    pub const WHO_AM_I: i32 = 107;
    pub const CLOSE_SESSION: i32 = -11;
    pub const ERROR: i32 = -1;
}

/// What kind of znode a create asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    Persistent,
    Ephemeral,
    /// Removed by the server once its last child is gone.
    Container,
    /// Refused with `Unimplemented`, as ZooKeeper does unless `extendedTypesEnabled` is set.
    Ttl,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create<'a> {
    pub path: &'a str,
    pub data: Option<&'a [u8]>,
    pub acl: Vec<Acl>,
    /// `None` when the flags name no mode: refused with `BadArguments`.
    pub mode: Option<(Lifetime, Sequential)>,
    /// `create2` and its successors are answered with the new znode's [`Stat`]; `create` is not.
    pub with_stat: bool,
}

/// Whether the server appends the parent's 10-digit counter to the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequential {
    Yes,
    No,
}

/// An operation that changes a znode or, for `Check`, is only worth asking beside those that do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOp<'a> {
    Create(Create<'a>),
    Delete { path: &'a str, version: i32 },
    SetData { path: &'a str, data: Option<&'a [u8]>, version: i32 },
    SetAcl { path: &'a str, acl: Vec<Acl>, version: i32 },
    Check { path: &'a str, version: i32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOp<'a> {
    GetData { path: &'a str, watch: bool },
    GetChildren { path: &'a str, watch: bool, with_stat: bool },
}

/// Which of a session's watches `checkWatches` and `removeWatches` mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatcherType {
    Children,
    Data,
    Any,
    Persistent,
    PersistentRecursive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddWatchMode {
    Persistent,
    PersistentRecursive,
}

/// The watches a client had when it lost its connection, to be replayed against what happened since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetWatches<'a> {
    pub relative_zxid: Zxid,
    pub data: Vec<&'a str>,
    pub exist: Vec<&'a str>,
    pub child: Vec<&'a str>,
    pub persistent: Vec<&'a str>,
    pub persistent_recursive: Vec<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    Write(WriteOp<'a>),
    Multi(Vec<WriteOp<'a>>),
    Read(ReadOp<'a>),
    MultiRead(Vec<ReadOp<'a>>),
    Exists { path: &'a str, watch: bool },
    GetAcl { path: &'a str },
    Sync { path: &'a str },
    Ping,
    Auth { scheme: &'a str, auth: &'a [u8] },
    Sasl,
    SetWatches(SetWatches<'a>),
    AddWatch { path: &'a str, mode: AddWatchMode },
    CheckWatches { path: &'a str, kind: WatcherType },
    RemoveWatches { path: &'a str, kind: WatcherType },
    GetEphemerals { prefix: Option<&'a str> },
    GetAllChildrenNumber { path: &'a str },
    WhoAmI,
    Reconfig,
    CloseSession,
}

/// Why a frame is no request we serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No client sends such an operation: it is answered `Unimplemented` and the connection closed.
    #[error("operation {0} is unknown")]
    UnknownOperation(i32),
    /// Answered `MarshallingError`; the connection stays.
    #[error("operation {operation} is malformed: {source}")]
    Malformed { operation: i32, source: JuteError },
}

/// The xid and operation code in front of every request.
pub fn read_header(frame: &[u8]) -> Result<(Xid, i32, Reader<'_>), JuteError> {
    let mut reader = Reader::new(frame);
    Ok((Xid(reader.int()?), reader.int()?, reader))
}

impl<'a> Request<'a> {
    /// Reads what follows the header of a request for `operation`.
    pub fn read(operation: i32, mut reader: Reader<'a>) -> Result<Request<'a>, RequestError> {
        Request::read_body(operation, &mut reader)
            .map_err(|source| RequestError::Malformed { operation, source })?
            .ok_or(RequestError::UnknownOperation(operation))
    }

    fn read_body(operation: i32, reader: &mut Reader<'a>) -> Result<Option<Request<'a>>, JuteError> {
        Ok(Some(match operation {
            op::CREATE | op::CREATE2 | op::CREATE_CONTAINER | op::CREATE_TTL | op::DELETE | op::SET_DATA => {
                Request::Write(WriteOp::read(operation, reader)?)
            }
            op::SET_ACL => Request::Write(WriteOp::SetAcl {
                path: reader.string()?,
                acl: Acl::read_vector(reader)?,
                version: reader.int()?,
            }),
            op::MULTI => Request::Multi(read_multi(reader, WriteOp::read)?),
            op::GET_DATA | op::GET_CHILDREN | op::GET_CHILDREN2 => {
                Request::Read(ReadOp::read(operation, reader)?)
            }
            op::MULTI_READ => Request::MultiRead(read_multi(reader, ReadOp::read)?),
            op::EXISTS => Request::Exists { path: reader.string()?, watch: reader.boolean()? },
            op::GET_ACL => Request::GetAcl { path: reader.string()? },
            op::SYNC => Request::Sync { path: reader.string()? },
            op::PING => Request::Ping,
            op::AUTH => {
                let _type = reader.int()?;
                Request::Auth { scheme: reader.string()?, auth: reader.buffer()?.unwrap_or_default() }
            }
            op::SASL => Request::Sasl,
            op::SET_WATCHES | op::SET_WATCHES2 => {
                let with_persistent = operation == op::SET_WATCHES2;
                Request::SetWatches(SetWatches {
                    relative_zxid: Zxid(reader.long()?),
                    data: reader.strings()?,
                    exist: reader.strings()?,
                    child: reader.strings()?,
                    persistent: if with_persistent { reader.strings()? } else { Vec::new() },
                    persistent_recursive: if with_persistent { reader.strings()? } else { Vec::new() },
                })
            }
            op::ADD_WATCH => Request::AddWatch { path: reader.string()?, mode: AddWatchMode::read(reader)? },
            op::CHECK_WATCHES => {
                Request::CheckWatches { path: reader.string()?, kind: WatcherType::read(reader)? }
            }
            op::REMOVE_WATCHES => {
                Request::RemoveWatches { path: reader.string()?, kind: WatcherType::read(reader)? }
            }
            op::GET_EPHEMERALS => Request::GetEphemerals { prefix: reader.nullable_string()? },
            op::GET_ALL_CHILDREN_NUMBER => Request::GetAllChildrenNumber { path: reader.string()? },
            op::WHO_AM_I => Request::WhoAmI,
            op::RECONFIG => Request::Reconfig,
            op::CLOSE_SESSION => Request::CloseSession,
            _ => return Ok(None),
        }))
    }
}

/// Reads the operations of a multi: each behind a header of its own, until a header says that it is done.
fn read_multi<'a, Op>(
    reader: &mut Reader<'a>,
    read: impl Fn(i32, &mut Reader<'a>) -> Result<Op, JuteError>,
) -> Result<Vec<Op>, JuteError> {
    let mut ops = Vec::new();
    loop {
        let operation = reader.int()?;
        let done = reader.boolean()?;
        let _error = reader.int()?;
        if done {
            return Ok(ops);
        }
        ops.push(read(operation, reader)?);
    }
}

impl<'a> WriteOp<'a> {
    /// Reads an operation that may stand in a multi.
    fn read(operation: i32, reader: &mut Reader<'a>) -> Result<WriteOp<'a>, JuteError> {
        Ok(match operation {
            op::CREATE | op::CREATE2 | op::CREATE_CONTAINER | op::CREATE_TTL => {
                let (path, data) = (reader.string()?, reader.buffer()?);
                let acl = Acl::read_vector(reader)?;
                let flags = reader.int()?;
                if operation == op::CREATE_TTL {
                    let _ttl = reader.long()?;
                }
                let mode = create_mode(flags).map(|(lifetime, sequential)| match operation {
                    op::CREATE_CONTAINER => (Lifetime::Container, sequential),
                    op::CREATE_TTL => (Lifetime::Ttl, sequential),
                    _ => (lifetime, sequential),
                });
                WriteOp::Create(Create { path, data, acl, mode, with_stat: operation != op::CREATE })
            }
            op::DELETE => WriteOp::Delete { path: reader.string()?, version: reader.int()? },
            op::SET_DATA => {
                WriteOp::SetData { path: reader.string()?, data: reader.buffer()?, version: reader.int()? }
            }
            op::CHECK => WriteOp::Check { path: reader.string()?, version: reader.int()? },
            _ => return Err(JuteError::UnknownValue(operation)),
        })
    }
}

/// The meaning of a create's flags (`CreateMode`).
fn create_mode(flags: i32) -> Option<(Lifetime, Sequential)> {
    Some(match flags {
        0 => (Lifetime::Persistent, Sequential::No),
        1 => (Lifetime::Ephemeral, Sequential::No),
        2 => (Lifetime::Persistent, Sequential::Yes),
        3 => (Lifetime::Ephemeral, Sequential::Yes),
        4 => (Lifetime::Container, Sequential::No),
        5 => (Lifetime::Ttl, Sequential::No),
        6 => (Lifetime::Ttl, Sequential::Yes),
        _ => return None,
    })
}

impl<'a> ReadOp<'a> {
    fn read(operation: i32, reader: &mut Reader<'a>) -> Result<ReadOp<'a>, JuteError> {
        let (path, watch) = (reader.string()?, reader.boolean()?);
        Ok(match operation {
            op::GET_DATA => ReadOp::GetData { path, watch },
            op::GET_CHILDREN => ReadOp::GetChildren { path, watch, with_stat: false },
            op::GET_CHILDREN2 => ReadOp::GetChildren { path, watch, with_stat: true },
            _ => return Err(JuteError::UnknownValue(operation)),
        })
    }
}

impl WatcherType {
    fn read(reader: &mut Reader<'_>) -> Result<WatcherType, JuteError> {
        Ok(match reader.int()? {
            1 => WatcherType::Children,
            2 => WatcherType::Data,
            3 => WatcherType::Any,
            4 => WatcherType::Persistent,
            5 => WatcherType::PersistentRecursive,
            other => return Err(JuteError::UnknownValue(other)),
        })
    }
}

impl AddWatchMode {
    fn read(reader: &mut Reader<'_>) -> Result<AddWatchMode, JuteError> {
        Ok(match reader.int()? {
            0 => AddWatchMode::Persistent,
            1 => AddWatchMode::PersistentRecursive,
            other => return Err(JuteError::UnknownValue(other)),
        })
    }
}

/// What a request is answered with, when it is not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The header alone.
    Done,
    Path(Arc<str>),
    Created {
        path: Arc<str>,
        stat: Stat,
    },
    Stat(Stat),
    Data {
        data: Option<Bytes>,
        stat: Stat,
    },
    Names(Vec<Arc<str>>),
    Children {
        names: Vec<Arc<str>>,
        stat: Stat,
    },
    Acl {
        acl: Vec<Acl>,
        stat: Stat,
    },
    Multi(Vec<OpResult>),
    Number(i32),
    /// Scheme and user of each identity of the session.
    WhoAmI(Vec<Id>),
}

/// The outcome of one operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    Created {
        path: Arc<str>,
        stat: Option<Stat>,
    },
    Deleted,
    SetData(Stat),
    Checked,
    Data {
        data: Option<Bytes>,
        stat: Stat,
    },
    Names(Vec<Arc<str>>),
    /// `None` for an operation that would have succeeded, had a later one not failed.
    Failed(Option<ErrorCode>),
}

impl Response {
    pub fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Response::Done => {}
            Response::Path(path) => writer.string(path),
            Response::Created { path, stat } => {
                writer.string(path);
                stat.write(writer);
            }
            Response::Stat(stat) => stat.write(writer),
            Response::Data { data, stat } => {
                writer.buffer(data.as_deref());
                stat.write(writer);
            }
            Response::Names(names) => write_names(writer, names),
            Response::Children { names, stat } => {
                write_names(writer, names);
                stat.write(writer);
            }
            Response::Acl { acl, stat } => {
                writer.vector(acl, |writer, acl| acl.write(writer));
                stat.write(writer);
            }
            Response::Multi(results) => {
                for result in results {
                    result.write(writer);
                }
                write_multi_header(writer, -1, true, -1);
            }
            Response::Number(number) => writer.int(*number),
            Response::WhoAmI(ids) => writer.vector(ids, |writer, id| {
                writer.string(&id.scheme);
                writer.string(&id.id);
            }),
        }
    }
}

impl OpResult {
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            OpResult::Created { path, stat: None } => {
                write_multi_header(writer, op::CREATE, false, 0);
                writer.string(path);
            }
            OpResult::Created { path, stat: Some(stat) } => {
                write_multi_header(writer, op::CREATE2, false, 0);
                writer.string(path);
                stat.write(writer);
            }
            OpResult::Deleted => write_multi_header(writer, op::DELETE, false, 0),
            OpResult::SetData(stat) => {
                write_multi_header(writer, op::SET_DATA, false, 0);
                stat.write(writer);
            }
            OpResult::Checked => write_multi_header(writer, op::CHECK, false, 0),
            OpResult::Data { data, stat } => {
                write_multi_header(writer, op::GET_DATA, false, 0);
                writer.buffer(data.as_deref());
                stat.write(writer);
            }
            OpResult::Names(names) => {
                write_multi_header(writer, op::GET_CHILDREN, false, 0);
                write_names(writer, names);
            }
            OpResult::Failed(error) => {
                let code = error.map_or(0, ErrorCode::code);
                write_multi_header(writer, op::ERROR, false, code);
                writer.int(code);
            }
        }
    }
}

fn write_multi_header(writer: &mut Writer<'_>, operation: i32, done: bool, error: i32) {
    writer.int(operation);
    writer.boolean(done);
    writer.int(error);
}

fn write_names(writer: &mut Writer<'_>, names: &[Arc<str>]) {
    writer.vector(names, |writer, name| writer.string(name));
}

/// An answer, with the last transaction it knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub xid: Xid,
    pub zxid: Zxid,
    pub result: Result<Response, ErrorCode>,
}

impl Reply {
    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.int(self.xid.0);
        writer.long(self.zxid.0);
        match &self.result {
            Ok(response) => {
                writer.int(0);
                response.write(writer);
            }
            Err(error) => writer.int(error.code()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    NodeCreated,
    NodeDeleted,
    NodeDataChanged,
    NodeChildrenChanged,
}

/// What a watch tells its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// The transaction that fired it; `None` when a `setWatches` found it had fired in the client's absence.
    pub zxid: Option<Zxid>,
    pub kind: EventType,
    pub path: Arc<str>,
}

impl WatchEvent {
    pub fn write(&self, writer: &mut Writer<'_>) {
        const STATE_SYNC_CONNECTED: i32 = 3;
        writer.int(Xid::NOTIFICATION.0);
        writer.long(self.zxid.map_or(-1, |zxid| zxid.0));
        writer.int(0);
        writer.int(match self.kind {
            EventType::NodeCreated => 1,
            EventType::NodeDeleted => 2,
            EventType::NodeDataChanged => 3,
            EventType::NodeChildrenChanged => 4,
        });
        writer.int(STATE_SYNC_CONNECTED);
        writer.string(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(operation in -12..110_i32, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _whichever = Request::read(operation, Reader::new(&bytes));
            let _whichever = ConnectRequest::read(&bytes);
        }

        /// Small numbers make lengths and counts plausible, so that reading gets further than with any bytes.
        #[test]
        fn plausible_bytes_are_a_request_or_refused(operation in -12..110_i32, bytes in prop::collection::vec(0..3_u8, 0..200)) {
            if let Ok(Request::Multi(ops)) = Request::read(operation, Reader::new(&bytes)) {
                prop_assert!(ops.len() <= bytes.len() / 9, "each operation has a header of 9 bytes");
            }
        }
    }
}
