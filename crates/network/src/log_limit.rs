//! Keeps what strangers can cause from flooding the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One line per peer address in this time.
const PER_PEER: Duration = Duration::from_secs(60);

/// One line about accept(2) in this time.
const PER_ACCEPTOR: Duration = Duration::from_secs(1);

/// Peers remembered. When there are more, those whose time has passed are forgotten; if that frees nothing,
/// new ones go unlogged for the moment.
const PEERS_MAX: usize = 1024;

/// Decides whether a line is written, and counts those that were not.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    peers: Mutex<HashMap<IpAddr, Said>>,
    acceptor: Mutex<Option<Said>>,
}

#[derive(Debug)]
struct Said {
    at: Instant,
    unsaid: u64,
}

impl LogLimit {
    /// `Some(lines left out since the last one)` if a line about this peer may be written.
    pub(crate) fn admit(&self, peer: IpAddr) -> Option<u64> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if peers.len() >= PEERS_MAX && !peers.contains_key(&peer) {
            peers.retain(|_, said| now < said.at + PER_PEER);
            if peers.len() >= PEERS_MAX {
                return None;
            }
        }
        match peers.get_mut(&peer) {
            Some(said) => said.again(now, PER_PEER),
            None => {
                peers.insert(peer, Said { at: now, unsaid: 0 });
                Some(0)
            }
        }
    }

    /// As above, for trouble with accept(2).
    pub(crate) fn admit_acceptor(&self) -> Option<u64> {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match &mut *acceptor {
            Some(said) => said.again(now, PER_ACCEPTOR),
            None => {
                *acceptor = Some(Said { at: now, unsaid: 0 });
                Some(0)
            }
        }
    }
}

impl Said {
    fn again(&mut self, now: Instant, every: Duration) -> Option<u64> {
        if now < self.at + every {
            self.unsaid += 1;
            return None;
        }
        self.at = now;
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_gets_one_line_a_minute_and_the_rest_are_counted() {
        let limit = LogLimit::default();
        let (ann, bob) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert_eq!(limit.admit(ann), Some(0));
        assert_eq!(limit.admit(ann), None);
        assert_eq!(limit.admit(bob), Some(0), "another peer is another matter");
        assert_eq!(limit.admit(ann), None);
        tokio::time::advance(PER_PEER).await;
        assert_eq!(limit.admit(ann), Some(2));
        assert_eq!(limit.admit(ann), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_peers_is_forgotten_in_time() {
        let limit = LogLimit::default();
        for peer in 0..PEERS_MAX as u32 {
            assert_eq!(limit.admit(IpAddr::from(peer.to_be_bytes())), Some(0));
        }
        let late = IpAddr::from([255, 0, 0, 1]);
        assert_eq!(limit.admit(late), None, "no more than {PEERS_MAX} are remembered");
        tokio::time::advance(PER_PEER).await;
        assert_eq!(limit.admit(late), Some(0));
        assert_eq!(limit.peers.lock().unwrap().len(), 1);
    }
}
