//! Who may connect: `max.connections`, `max.connections.per.ip` and its overrides (KIP-402, KIP-612).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::server::Limits;

/// Counts open connections. A connection counts from its [`ConnectionSlot`] to the drop of it, so no way of
/// ending can leave the counters high (KAFKA-2614).
#[derive(Debug)]
pub(crate) struct ConnectionQuotas {
    connections_max: usize,
    per_ip_max: usize,
    per_ip_overrides: HashMap<IpAddr, usize>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_ip: HashMap<IpAddr, usize>,
    by_listener: HashMap<Arc<str>, usize>,
}

/// Why a connection was closed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("max.connections of the broker is reached: {max}")]
    Total { max: usize },
    #[error("max.connections of the listener is reached: {max}")]
    Listener { max: usize },
    #[error("max.connections.per.ip is reached for this address: {max}")]
    Address { max: usize },
}

/// A connection's place among the open ones.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    quotas: Arc<ConnectionQuotas>,
    listener: Arc<str>,
    ip: IpAddr,
}

impl ConnectionQuotas {
    pub(crate) fn new(limits: &Limits) -> Arc<ConnectionQuotas> {
        let per_ip_overrides = limits.connections_per_ip_overrides.clone();
        Arc::new(ConnectionQuotas {
            connections_max: limits.connections_max,
            per_ip_max: limits.connections_per_ip_max,
            per_ip_overrides: per_ip_overrides
                .into_iter()
                .map(|(ip, max)| (ip.to_canonical(), max))
                .collect(),
            open: Mutex::default(),
        })
    }

    pub(crate) fn total(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// `listener_max`: `listener.name.<name>.max.connections`. `inter_broker`: the listener keeps its share
    /// when ordinary clients have used up the broker's limit.
    pub(crate) fn admit(
        self: &Arc<Self>,
        listener: &Arc<str>,
        listener_max: usize,
        inter_broker: bool,
        ip: IpAddr,
    ) -> Result<ConnectionSlot, Refusal> {
        // ::ffff:10.0.0.1 on a dual-stack socket is 10.0.0.1.
        let ip = ip.to_canonical();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let per_ip_max = self.per_ip_overrides.get(&ip).copied().unwrap_or(self.per_ip_max);
        if open.by_ip.get(&ip).copied().unwrap_or(0) >= per_ip_max {
            return Err(Refusal::Address { max: per_ip_max });
        }
        if open.by_listener.get(listener).copied().unwrap_or(0) >= listener_max {
            return Err(Refusal::Listener { max: listener_max });
        }
        if open.total >= self.connections_max && !inter_broker {
            return Err(Refusal::Total { max: self.connections_max });
        }
        open.total += 1;
        *open.by_ip.entry(ip).or_default() += 1;
        *open.by_listener.entry(listener.clone()).or_default() += 1;
        Ok(ConnectionSlot { quotas: self.clone(), listener: listener.clone(), ip })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.quotas.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.total -= 1;
        release(&mut open.by_ip, &self.ip);
        release(&mut open.by_listener, &self.listener);
    }
}

/// Entries at zero go, so that the maps hold only who is connected.
fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn quotas(total: usize, per_ip: usize) -> Arc<ConnectionQuotas> {
        ConnectionQuotas::new(&Limits {
            connections_max: total,
            connections_per_ip_max: per_ip,
            connections_per_ip_overrides: HashMap::from([(ip("10.0.0.9"), 1), (ip("10.0.0.8"), 0)]),
            ..Limits::default()
        })
    }

    #[test]
    fn each_limit_refuses_the_connection_that_would_exceed_it() {
        let (clients, brokers): (Arc<str>, Arc<str>) = ("CLIENTS".into(), "BROKERS".into());
        let quotas = quotas(4, 2);
        let mut open = Vec::new();
        for (why, listener, listener_max, inter_broker, address, answer) in [
            ("the first of its address", &clients, 3, false, "10.0.0.1", None),
            ("the second of it", &clients, 3, false, "10.0.0.1", None),
            ("the third of it", &clients, 3, false, "10.0.0.1", Some(Refusal::Address { max: 2 })),
            (
                "the same address, mapped to IPv6",
                &clients,
                3,
                false,
                "::ffff:10.0.0.1",
                Some(Refusal::Address { max: 2 }),
            ),
            ("an override of one", &clients, 3, false, "10.0.0.9", None),
            ("beyond the override", &brokers, 3, true, "10.0.0.9", Some(Refusal::Address { max: 1 })),
            ("an override of nothing", &clients, 9, false, "10.0.0.8", Some(Refusal::Address { max: 0 })),
            ("a full listener", &clients, 3, false, "10.0.0.2", Some(Refusal::Listener { max: 3 })),
            ("the last of the broker", &brokers, 9, false, "10.0.0.2", None),
            ("a full broker", &brokers, 9, false, "10.0.0.3", Some(Refusal::Total { max: 4 })),
            ("another broker, when clients have used up the limit", &brokers, 9, true, "10.0.0.3", None),
        ] {
            match quotas.admit(listener, listener_max, inter_broker, ip(address)) {
                Ok(slot) => {
                    assert_eq!(answer, None, "{why}");
                    open.push(slot);
                }
                Err(refusal) => assert_eq!(answer, Some(refusal), "{why}"),
            }
        }
        assert_eq!(quotas.total(), 5);
        open.clear();
        let left = quotas.open.lock().unwrap();
        assert_eq!(
            (left.total, left.by_ip.len(), left.by_listener.len()),
            (0, 0, 0),
            "counters return to zero"
        );
    }
}
