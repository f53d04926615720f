//! The znodes: what is stored, what an operation would change, and the change itself.
//!
//! [`Draft`] decides and changes nothing; [`Znodes::apply`] is the one writer, for live traffic as for the replay
//! of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::acl::{self, AclList};
use crate::path;
use crate::protocol::{
    Acl, Create, ErrorCode, Id, Lifetime, Sequential, SessionId, Stat, WriteOp, Zxid, perms,
};

/// What is stored under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Znode {
    pub data: Option<Bytes>,
    pub acl: AclList,
    pub czxid: Zxid,
    pub mzxid: Zxid,
    pub pzxid: Zxid,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub aversion: i32,
    /// Children ever created here: the next number of a sequential child. What clients see as `cversion` counts
    /// the deletions too.
    pub creates: i32,
    /// The session of an ephemeral, [`CONTAINER_OWNER`], or 0.
    pub owner: i64,
    pub children: BTreeSet<Arc<str>>,
}

impl Znode {
    fn new(data: Option<Bytes>, acl: AclList, owner: i64, zxid: Zxid, time: i64) -> Znode {
        Znode {
            data,
            acl,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            aversion: 0,
            creates: 0,
            owner,
            children: BTreeSet::new(),
        }
    }

    pub fn stat(&self) -> Stat {
        let num_children = self.children.len() as i32;
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            // Every child ever created that is not here any more was deleted.
            cversion: self.creates.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: ephemeral_of(self.owner).unwrap_or_default().0,
            data_length: self.data.as_ref().map_or(0, Bytes::len) as i32,
            num_children,
            pzxid: self.pzxid,
        }
    }
}

/// The `owner` that marks a container. Clients see 0.
pub const CONTAINER_OWNER: i64 = i64::MIN;

/// The session an owner names, if it names one.
pub fn ephemeral_of(owner: i64) -> Option<SessionId> {
    (owner != 0 && owner != CONTAINER_OWNER).then_some(SessionId(owner))
}

/// One change to the znodes, decided and complete: what the log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Create {
        path: Arc<str>,
        data: Option<Bytes>,
        acl: AclList,
        owner: i64,
    },
    Delete {
        path: Arc<str>,
    },
    SetData {
        path: Arc<str>,
        data: Option<Bytes>,
        version: i32,
    },
    SetAcl {
        path: Arc<str>,
        acl: AclList,
        version: i32,
    },
    /// A check that held. It changes nothing, but has its place in a multi's list of results.
    Check,
}

/// A change that does not fit the znodes: a log that does not belong to its snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the change to {path} does not fit what is stored: {why}")]
pub struct Misfit {
    pub path: String,
    pub why: &'static str,
}

impl Misfit {
    fn new(path: &str, why: &'static str) -> Misfit {
        Misfit { path: path.to_owned(), why }
    }
}

#[derive(Debug)]
pub struct Znodes {
    by_path: BTreeMap<Arc<str>, Znode>,
    data_bytes: usize,
}

/// Znodes that are always there and cannot be deleted.
const BUILT_IN: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

impl Default for Znodes {
    /// What every server has from the start.
    fn default() -> Znodes {
        let mut znodes = Znodes { by_path: BTreeMap::new(), data_bytes: 0 };
        for path in BUILT_IN {
            let mut znode = Znode::new(Some(Bytes::new()), AclList::Open, 0, Zxid(0), 0);
            if path == "/zookeeper/config" {
                znode.acl = AclList::new(vec![Acl { perms: perms::READ, id: Id::new("world", "anyone") }]);
                znode.aversion = -1;
            }
            znodes.data_bytes += path.len();
            znodes.by_path.insert(path.into(), znode);
            if let Some((parent, name)) = path::split(path).filter(|(_, name)| !name.is_empty()) {
                let parent = znodes.by_path.get_mut(parent).expect("built in before its children");
                parent.children.insert(name.into());
            }
        }
        znodes
    }
}

impl Znodes {
    pub fn get(&self, path: &str) -> Option<&Znode> {
        self.by_path.get(path)
    }

    pub fn key_value(&self, path: &str) -> Option<(&Arc<str>, &Znode)> {
        self.by_path.get_key_value(path)
    }

    /// In path order, so that a parent comes before its children.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Znode)> {
        self.by_path.iter()
    }

    /// How many there are, the built-in ones included.
    pub fn count(&self) -> usize {
        self.by_path.len()
    }

    /// Bytes of paths and data, for the operator.
    pub fn data_size(&self) -> usize {
        self.data_bytes
    }

    /// How many znodes lie below `path`.
    pub fn count_below(&self, path: &str) -> usize {
        if path == "/" {
            return self.by_path.len() - 1;
        }
        let prefix = format!("{path}/");
        self.by_path
            .range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded))
            .take_while(|(path, _)| path.starts_with(&prefix))
            .count()
    }

    /// Puts back a znode of a snapshot. Its parent must be there already.
    pub fn restore(&mut self, path: Arc<str>, znode: Znode) -> Result<(), Misfit> {
        if let Some((parent, name)) = path::split(&path).filter(|(_, name)| !name.is_empty()) {
            let parent =
                self.by_path.get_mut(parent).ok_or_else(|| Misfit::new(&path, "its parent is missing"))?;
            parent.children.insert(name.into());
        }
        let size = |znode: &Znode| path.len() + znode.data.as_ref().map_or(0, Bytes::len);
        self.data_bytes += size(&znode);
        let mut children = BTreeSet::new();
        if let Some(built_in) = self.by_path.remove(&path) {
            self.data_bytes -= size(&built_in);
            children = built_in.children;
        }
        self.by_path.insert(path, Znode { children, ..znode });
        Ok(())
    }

    /// Makes `change`, and says how the znode it made or changed looks now.
    pub fn apply(&mut self, change: &Change, zxid: Zxid, time: i64) -> Result<Option<Stat>, Misfit> {
        match change {
            Change::Create { path, data, acl, owner } => {
                let (parent, name) = path::split(path).ok_or_else(|| Misfit::new(path, "it is no path"))?;
                if self.by_path.contains_key(path) {
                    return Err(Misfit::new(path, "it exists already"));
                }
                let parent =
                    self.by_path.get_mut(parent).ok_or_else(|| Misfit::new(path, "its parent is missing"))?;
                parent.children.insert(name.into());
                parent.creates = parent.creates.wrapping_add(1);
                parent.pzxid = zxid;
                let znode = Znode::new(data.clone(), acl.clone(), *owner, zxid, time);
                let stat = znode.stat();
                self.data_bytes += path.len() + data.as_ref().map_or(0, Bytes::len);
                self.by_path.insert(path.clone(), znode);
                Ok(Some(stat))
            }
            Change::Delete { path } => {
                let (parent, name) = path::split(path).ok_or_else(|| Misfit::new(path, "it is no path"))?;
                match self.by_path.get(path) {
                    Some(znode) if znode.children.is_empty() => {
                        self.data_bytes -= path.len() + znode.data.as_ref().map_or(0, Bytes::len);
                    }
                    Some(_) => return Err(Misfit::new(path, "it has children")),
                    None => return Err(Misfit::new(path, "it does not exist")),
                }
                let parent =
                    self.by_path.get_mut(parent).ok_or_else(|| Misfit::new(path, "its parent is missing"))?;
                parent.children.remove(name);
                parent.pzxid = zxid;
                self.by_path.remove(path);
                Ok(None)
            }
            Change::SetData { path, data, version } => {
                let znode =
                    self.by_path.get_mut(path).ok_or_else(|| Misfit::new(path, "it does not exist"))?;
                self.data_bytes += data.as_ref().map_or(0, Bytes::len);
                self.data_bytes -= znode.data.as_ref().map_or(0, Bytes::len);
                znode.data = data.clone();
                znode.version = *version;
                znode.mzxid = zxid;
                znode.mtime = time;
                Ok(Some(znode.stat()))
            }
            Change::SetAcl { path, acl, version } => {
                let znode =
                    self.by_path.get_mut(path).ok_or_else(|| Misfit::new(path, "it does not exist"))?;
                znode.acl = acl.clone();
                znode.aversion = *version;
                Ok(Some(znode.stat()))
            }
            Change::Check => Ok(None),
        }
    }
}

/// What deciding needs to know of a znode.
#[derive(Debug, Clone)]
struct Face {
    acl: AclList,
    version: i32,
    aversion: i32,
    creates: i32,
    children: usize,
    owner: i64,
}

/// The znodes as the operations of one multi will leave them, without touching them.
#[derive(Debug)]
pub struct Draft<'t> {
    znodes: &'t Znodes,
    /// `None` for a znode that is to be deleted.
    touched: BTreeMap<Arc<str>, Option<Face>>,
}

impl<'t> Draft<'t> {
    pub fn new(znodes: &'t Znodes) -> Draft<'t> {
        Draft { znodes, touched: BTreeMap::new() }
    }

    fn face(&self, path: &str) -> Option<Face> {
        if let Some(touched) = self.touched.get(path) {
            return touched.clone();
        }
        let znode = self.znodes.get(path)?;
        Some(Face {
            acl: znode.acl.clone(),
            version: znode.version,
            aversion: znode.aversion,
            creates: znode.creates,
            children: znode.children.len(),
            owner: znode.owner,
        })
    }

    /// What `op`, asked by `session` known as `ids`, would change. The order of the checks is ZooKeeper's, as it
    /// shows in which error a request with several faults gets.
    pub fn decide(&self, op: &WriteOp<'_>, session: SessionId, ids: &[Id]) -> Result<Change, ErrorCode> {
        match op {
            WriteOp::Create(create) => self.decide_create(create, session, ids),
            WriteOp::Delete { path, version } => {
                let parent = match path::split(path) {
                    Some((parent, _)) if !path.contains('\0') && !BUILT_IN.contains(path) => parent,
                    _ => return Err(ErrorCode::BadArguments),
                };
                let parent = self.face(parent).ok_or(ErrorCode::NoNode)?;
                permit(&parent, perms::DELETE, ids)?;
                let face = self.face(path).ok_or(ErrorCode::NoNode)?;
                next_version(face.version, *version)?;
                if face.children > 0 {
                    return Err(ErrorCode::NotEmpty);
                }
                Ok(Change::Delete { path: self.shared(path) })
            }
            WriteOp::SetData { path, data, version } => {
                let face = self.valid_face(path)?;
                permit(&face, perms::WRITE, ids)?;
                let version = next_version(face.version, *version)?;
                Ok(Change::SetData {
                    path: self.shared(path),
                    data: data.map(Bytes::copy_from_slice),
                    version,
                })
            }
            WriteOp::SetAcl { path, acl, version } => {
                if !path::is_valid(path) {
                    return Err(ErrorCode::BadArguments);
                }
                let acl = acl::resolve(acl, ids)?;
                let face = self.face(path).ok_or(ErrorCode::NoNode)?;
                permit(&face, perms::ADMIN, ids)?;
                let version = next_version(face.aversion, *version)?;
                Ok(Change::SetAcl { path: self.shared(path), acl, version })
            }
            WriteOp::Check { path, version } => {
                let face = self.valid_face(path)?;
                permit(&face, perms::READ, ids)?;
                next_version(face.version, *version)?;
                Ok(Change::Check)
            }
        }
    }

    fn decide_create(
        &self,
        create: &Create<'_>,
        session: SessionId,
        ids: &[Id],
    ) -> Result<Change, ErrorCode> {
        let (lifetime, sequential) = create.mode.ok_or(ErrorCode::BadArguments)?;
        let owner = match lifetime {
            Lifetime::Persistent => 0,
            Lifetime::Ephemeral => session.0,
            Lifetime::Container => CONTAINER_OWNER,
            Lifetime::Ttl => return Err(ErrorCode::Unimplemented),
        };
        let parent = match path::split(create.path) {
            Some((parent, _)) if !create.path.contains('\0') => parent,
            _ => return Err(ErrorCode::BadArguments),
        };
        let acl = acl::resolve(&create.acl, ids)?;
        let parent = self.face(parent).ok_or(ErrorCode::NoNode)?;
        permit(&parent, perms::CREATE, ids)?;
        let path: Arc<str> = match sequential {
            Sequential::Yes => format!("{}{:010}", create.path, parent.creates).into(),
            Sequential::No => create.path.into(),
        };
        if !path::is_valid(&path) {
            return Err(ErrorCode::BadArguments);
        }
        if self.face(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if ephemeral_of(parent.owner).is_some() {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        Ok(Change::Create { path, data: create.data.map(Bytes::copy_from_slice), acl, owner })
    }

    fn valid_face(&self, path: &str) -> Result<Face, ErrorCode> {
        if !path::is_valid(path) {
            return Err(ErrorCode::BadArguments);
        }
        self.face(path).ok_or(ErrorCode::NoNode)
    }

    /// The stored copy of a path that exists, so that a change to it allocates none.
    fn shared(&self, path: &str) -> Arc<str> {
        self.znodes.key_value(path).map_or_else(|| path.into(), |(path, _)| path.clone())
    }

    /// Lets the operations that follow see `change`.
    pub fn note(&mut self, change: &Change) {
        match change {
            Change::Create { path, acl, owner, .. } => {
                self.touch_parent(path, |parent| {
                    parent.children += 1;
                    parent.creates = parent.creates.wrapping_add(1);
                });
                let face = Face {
                    acl: acl.clone(),
                    version: 0,
                    aversion: 0,
                    creates: 0,
                    children: 0,
                    owner: *owner,
                };
                self.touched.insert(path.clone(), Some(face));
            }
            Change::Delete { path } => {
                self.touch_parent(path, |parent| parent.children -= 1);
                self.touched.insert(path.clone(), None);
            }
            Change::SetData { path, version, .. } => self.touch(path, |face| face.version = *version),
            Change::SetAcl { path, acl, version } => self.touch(path, |face| {
                face.acl = acl.clone();
                face.aversion = *version;
            }),
            Change::Check => {}
        }
    }

    fn touch_parent(&mut self, path: &str, edit: impl FnOnce(&mut Face)) {
        let (parent, _) = path::split(path).expect("a decided change has a valid path");
        self.touch(parent, edit);
    }

    fn touch(&mut self, path: &str, edit: impl FnOnce(&mut Face)) {
        let mut face = self.face(path).expect("a decided change fits the draft");
        edit(&mut face);
        self.touched.insert(self.shared(path), Some(face));
    }
}

fn permit(face: &Face, perms: i32, ids: &[Id]) -> Result<(), ErrorCode> {
    if face.acl.permits(perms, ids) { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

/// The version after `current`, if `expected` (-1: any) is the current one. Never -1, which no client could
/// then expect (ZOOKEEPER-4743).
fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected != -1 && expected != current {
        return Err(ErrorCode::BadVersion);
    }
    Ok(match current.wrapping_add(1) {
        -1 => 0,
        next => next,
    })
}
