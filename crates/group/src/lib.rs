//! Consumer groups with the classic protocol: who is a member, who leads, what was committed.
//!
//! A [`Group`] is a plain machine. Requests and the time come in as arguments; answers to requests that had to wait, and
//! records to be stored, go out as [`Effect`]s. It never sleeps: [`Group::next_deadline`] says when it wants to be asked
//! again, and [`Group::tick`] asks it.

mod clock;
mod group;
mod member;
mod offsets;
mod records;
mod replay;
mod subscription;

pub use clock::{Moment, Now};
pub use group::{
    Effect, Group, GroupConfig, JoinAnswer, JoinRequest, JoinedMember, Leaving, RequestId, State,
    StoredGroup, StoredMember, SyncAnswer, SyncRequest,
};
pub use member::Member;
pub use offsets::{CommittedOffset, Committer, Offsets};
pub use records::{Record, RecordFault, RecordVersions, group_key, group_value, offset_key, offset_value};
pub use replay::{Replay, Skipped};
pub use subscription::{CONSUMER_PROTOCOL_TYPE, subscribed_topics};
