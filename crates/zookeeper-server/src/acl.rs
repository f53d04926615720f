//! Who may do what: the schemes `world`, `auth`, `digest` and `ip`.
//!
//! `sasl`, `x509` and whatever else a plug-in would bring to ZooKeeper are not known here; an ACL that names
//! them is refused as invalid rather than stored and never matched.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use sha1::{Digest as _, Sha1};

use crate::protocol::{Acl, ErrorCode, Id, perms};

/// The ACL of a znode. Nearly all are open to everybody, so that one costs no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclList {
    /// `world:anyone` may do everything.
    Open,
    Of(Arc<[Acl]>),
}

impl AclList {
    pub fn new(list: Vec<Acl>) -> AclList {
        match &list[..] {
            [only] if *only == open() => AclList::Open,
            _ => AclList::Of(list.into()),
        }
    }

    pub fn to_vec(&self) -> Vec<Acl> {
        match self {
            AclList::Open => vec![open()],
            AclList::Of(list) => list.to_vec(),
        }
    }

    /// Whether somebody known as `ids` has one of the permissions `perms`.
    pub fn permits(&self, perms: i32, ids: &[Id]) -> bool {
        match self {
            AclList::Open => perms & perms::ALL != 0,
            AclList::Of(list) => list.iter().any(|acl| acl.perms & perms != 0 && admits(&acl.id, ids)),
        }
    }

    /// What a reader without ADMIN is shown: digests are masked.
    pub fn masked(&self) -> Vec<Acl> {
        let mut list = self.to_vec();
        for acl in &mut list {
            if acl.id.scheme == "digest"
                && let Some(colon) = acl.id.id.find(':')
            {
                acl.id.id.replace_range(colon.., ":x");
            }
        }
        list
    }
}

fn open() -> Acl {
    Acl { perms: perms::ALL, id: Id::new("world", "anyone") }
}

fn admits(granted: &Id, ids: &[Id]) -> bool {
    match granted.scheme.as_str() {
        "world" => granted.id == "anyone",
        "ip" => ids
            .iter()
            .any(|id| id.scheme == "ip" && Network::parse(&granted.id).is_some_and(|n| n.holds(&id.id))),
        "digest" => ids.contains(granted),
        _ => false,
    }
}

/// Checks the ACL a client asks for, drops duplicates, and puts the client's own identities where it says `auth`.
pub fn resolve(asked: &[Acl], ids: &[Id]) -> Result<AclList, ErrorCode> {
    let mut resolved = Vec::new();
    for (index, acl) in asked.iter().enumerate() {
        if asked[..index].contains(acl) {
            continue;
        }
        match (acl.id.scheme.as_str(), acl.id.id.as_str()) {
            ("world", "anyone") => resolved.push(acl.clone()),
            // An address is no proof of identity, so only a digest stands for its bearer.
            ("auth", _) => {
                let mut proven = ids.iter().filter(|id| id.scheme == "digest").peekable();
                proven.peek().ok_or(ErrorCode::InvalidAcl)?;
                resolved.extend(proven.map(|id| Acl { perms: acl.perms, id: id.clone() }));
            }
            ("digest", id) if is_digest_id(id) => resolved.push(acl.clone()),
            ("ip", id) if Network::parse(id).is_some() => resolved.push(acl.clone()),
            _ => return Err(ErrorCode::InvalidAcl),
        }
    }
    if resolved.is_empty() {
        return Err(ErrorCode::InvalidAcl);
    }
    Ok(AclList::new(resolved))
}

/// Two parts around one colon; Java's `split` does not count empty parts at the end.
fn is_digest_id(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}

/// The identity that `user:password` proves: `user:` and the base64 of the SHA-1 of all of it.
pub fn digest_id(credentials: &[u8]) -> Id {
    let credentials = String::from_utf8_lossy(credentials);
    let user = credentials.split(':').next().unwrap_or_default();
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha1::digest(credentials.as_bytes()));
    Id { scheme: "digest".to_owned(), id: format!("{user}:{hash}") }
}

/// The identity a connection has from where it comes.
pub fn ip_id(peer: IpAddr) -> Id {
    Id { scheme: "ip".to_owned(), id: peer.to_canonical().to_string() }
}

/// `address` or `address/bits` of an `ip` ACL.
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Network { address, bits })
    }

    fn holds(&self, peer: &str) -> bool {
        match (self.address, peer.parse()) {
            (IpAddr::V4(network), Ok(IpAddr::V4(peer))) => {
                let differ = network.to_bits() ^ peer.to_bits();
                differ.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), Ok(IpAddr::V6(peer))) => {
                let differ = network.to_bits() ^ peer.to_bits();
                differ.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(perms: i32, scheme: &str, id: &str) -> Acl {
        Acl { perms, id: Id::new(scheme, id) }
    }

    #[test]
    fn a_digest_is_what_every_client_computes() {
        // The well-known vector of ZooKeeper's own documentation of `DigestAuthenticationProvider`.
        assert_eq!(digest_id(b"super:test"), Id::new("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="));
    }

    #[test]
    fn only_well_formed_acls_are_accepted() {
        let ann = digest_id(b"ann:secret");
        let home = Id::new("ip", "127.0.0.1");
        for (why, asked, ids, outcome) in [
            ("nothing grants nothing", vec![], vec![], Err(ErrorCode::InvalidAcl)),
            ("everybody", vec![acl(31, "world", "anyone")], vec![], Ok(vec![acl(31, "world", "anyone")])),
            (
                "nobody in the world but anyone",
                vec![acl(31, "world", "ann")],
                vec![],
                Err(ErrorCode::InvalidAcl),
            ),
            (
                "auth without having proven anything",
                vec![acl(31, "auth", "")],
                vec![home.clone()],
                Err(ErrorCode::InvalidAcl),
            ),
            ("auth becomes who I am", vec![acl(5, "auth", "")], vec![home, ann.clone()], {
                Ok(vec![Acl { perms: 5, id: ann.clone() }])
            }),
            ("a digest without a hash", vec![acl(31, "digest", "ann:")], vec![], Err(ErrorCode::InvalidAcl)),
            ("a digest of three parts", vec![acl(31, "digest", "a:b:c")], vec![], Err(ErrorCode::InvalidAcl)),
            ("a network", vec![acl(1, "ip", "10.0.0.0/8")], vec![], Ok(vec![acl(1, "ip", "10.0.0.0/8")])),
            (
                "a network wider than its address",
                vec![acl(1, "ip", "10.0.0.0/33")],
                vec![],
                Err(ErrorCode::InvalidAcl),
            ),
            ("a scheme without a provider", vec![acl(31, "sasl", "ann")], vec![], Err(ErrorCode::InvalidAcl)),
            (
                "the same twice counts once",
                vec![acl(1, "world", "anyone"), acl(1, "world", "anyone")],
                vec![],
                { Ok(vec![acl(1, "world", "anyone")]) },
            ),
        ] {
            assert_eq!(resolve(&asked, &ids).map(|list| list.to_vec()), outcome, "{why}");
        }
    }

    #[test]
    fn permissions_follow_scheme_and_identity() {
        let ann = digest_id(b"ann:secret");
        for (why, list, ids, granted) in [
            ("open to all", AclList::Open, vec![], true),
            ("read does not write", AclList::new(vec![acl(1, "world", "anyone")]), vec![], false),
            ("ann may", AclList::new(vec![Acl { perms: 31, id: ann.clone() }]), vec![ann.clone()], true),
            ("bob may not", AclList::new(vec![Acl { perms: 31, id: ann }]), vec![digest_id(b"bob:x")], false),
            (
                "within the network",
                AclList::new(vec![acl(2, "ip", "10.1.0.0/16")]),
                vec![Id::new("ip", "10.1.2.3")],
                true,
            ),
            (
                "outside the network",
                AclList::new(vec![acl(2, "ip", "10.1.0.0/16")]),
                vec![Id::new("ip", "10.2.2.3")],
                false,
            ),
            (
                "every address",
                AclList::new(vec![acl(2, "ip", "0.0.0.0/0")]),
                vec![Id::new("ip", "10.2.2.3")],
                true,
            ),
            (
                "another family",
                AclList::new(vec![acl(2, "ip", "::/0")]),
                vec![Id::new("ip", "10.2.2.3")],
                false,
            ),
        ] {
            assert_eq!(list.permits(perms::WRITE, &ids), granted, "{why}");
        }
    }
}
