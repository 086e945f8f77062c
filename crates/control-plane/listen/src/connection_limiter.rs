//! [`ConnectionLimiter`]: limits connections per network, and closes the oldest unauthenticated one for a new one.
//!
//! A connection begins as unauthenticated, and stays so until it is admitted ([`AdmissionHandle::admit`]). Clients that
//! hold slots without authenticating can so keep no other client out for long, not even one behind the same address. A
//! connection that has just been accepted is kept: where more come than can be served at once, the one that has waited
//! longest is about to be served, and closing it for the next one would serve none of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::warn;

/// How often at most a reached limit is logged.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The network that counts as one client: an IPv4 address, or the /64 of an IPv6 address, as one host has 2⁶⁴ of them.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

/// Limits the connections of every network.
pub struct ConnectionLimiter {
    limit: usize,
    eviction_grace: Duration,
    slots: Arc<Mutex<Slots>>,
}

#[derive(Default)]
struct Slots {
    /// The number of the last connection.
    last_number: u64,
    in_use: HashMap<IpAddr, usize>,
    /// Connections that were not admitted, the oldest first; the one that was just accepted has no task yet.
    unauthenticated: BTreeMap<u64, Unauthenticated>,
    /// The same by network.
    unauthenticated_by_network: BTreeSet<(IpAddr, u64)>,
    /// Evicted connections whose tasks have not ended yet.
    evicted: HashSet<u64>,
    /// How many connections were evicted or rejected since the last warning.
    rejected: u64,
    last_warning: Option<Instant>,
}

struct Unauthenticated {
    network: IpAddr,
    since: Instant,
    task: Option<AbortHandle>,
}

/// The slot of one connection; dropping it releases it.
pub struct Slot {
    number: u64,
    network: IpAddr,
    slots: Arc<Mutex<Slots>>,
    /// Whether another connection of the network was closed for it.
    pub has_evicted: bool,
}

/// Admits one connection.
pub struct AdmissionHandle {
    number: u64,
    slots: Arc<Mutex<Slots>>,
    is_admitted: AtomicBool,
}

fn lock(slots: &Mutex<Slots>) -> MutexGuard<'_, Slots> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConnectionLimiter {
    /// Allows `limit` connections of each network; an unauthenticated one is not evicted before `eviction_grace` is over.
    pub fn new(limit: usize, eviction_grace: Duration) -> ConnectionLimiter {
        ConnectionLimiter { limit, eviction_grace, slots: Arc::default() }
    }

    /// A slot for one more connection of this address. If its network has none left, its oldest unauthenticated connection is
    /// evicted; if there is none, or only ones within their grace, the result is `None`.
    pub fn acquire(&self, address: IpAddr) -> Option<Slot> {
        let (network, mut slots) = (client_network(address), lock(&self.slots));
        let is_full = slots.in_use.get(&network).is_some_and(|count| *count >= self.limit);
        if is_full {
            let range = (network, 0)..=(network, u64::MAX);
            let oldest = slots.unauthenticated_by_network.range(range).next().map(|(_, number)| *number);
            slots.warn_full(network);
            let oldest = oldest.filter(|number| slots.grace_left(*number, self.eviction_grace).is_none());
            slots.evict(oldest?);
        }
        *slots.in_use.entry(network).or_default() += 1;
        slots.last_number += 1;
        let number = slots.last_number;
        slots.unauthenticated.insert(number, Unauthenticated { network, since: Instant::now(), task: None });
        slots.unauthenticated_by_network.insert((network, number));
        Some(Slot { number, network, slots: Arc::clone(&self.slots), has_evicted: is_full })
    }

    /// Evicts the oldest unauthenticated connection of all networks, if there is one. While it is within its grace it is
    /// kept, and the result is the time that is left of it.
    pub fn evict_oldest(&self) -> Option<Duration> {
        let mut slots = lock(&self.slots);
        let oldest = slots.unauthenticated.iter().find(|(_, connection)| connection.task.is_some());
        let (number, network) = oldest.map(|(number, connection)| (*number, connection.network))?;
        let grace_left = slots.grace_left(number, self.eviction_grace);
        if grace_left.is_none() {
            slots.warn_full(network);
            slots.evict(number);
        }
        grace_left
    }

    /// From now on, until the connection is admitted, eviction aborts this task.
    pub fn set_task(&self, admission: &AdmissionHandle, task: AbortHandle) {
        // The task may have ended or admitted the connection already.
        if let Some(connection) = lock(&self.slots).unauthenticated.get_mut(&admission.number) {
            connection.task = Some(task);
        }
    }
}

impl Slots {
    /// What is left of the grace of an unauthenticated connection; `None` when it is over.
    fn grace_left(&self, number: u64, eviction_grace: Duration) -> Option<Duration> {
        let age = self.unauthenticated.get(&number)?.since.elapsed();
        eviction_grace.checked_sub(age).filter(|left| !left.is_zero())
    }

    fn evict(&mut self, number: u64) {
        if let Some(Unauthenticated { network, task, .. }) = self.remove_unauthenticated(number) {
            task.iter().for_each(AbortHandle::abort);
            self.evicted.insert(number);
            self.release(network);
        }
    }

    fn remove_unauthenticated(&mut self, number: u64) -> Option<Unauthenticated> {
        let connection = self.unauthenticated.remove(&number)?;
        self.unauthenticated_by_network.remove(&(connection.network, number));
        Some(connection)
    }

    fn release(&mut self, network: IpAddr) {
        if let Some(count) = self.in_use.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.in_use.remove(&network);
            }
        }
    }

    fn warn_full(&mut self, network: IpAddr) {
        self.rejected += 1;
        if self.last_warning.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL) {
            let connections = std::mem::take(&mut self.rejected);
            warn!(%network, connections, "connection limit reached; closing unauthenticated connections");
            self.last_warning = Some(Instant::now());
        }
    }
}

impl Slot {
    /// The handle that admits this connection.
    pub fn admission(&self) -> Arc<AdmissionHandle> {
        let (number, slots) = (self.number, Arc::clone(&self.slots));
        Arc::new(AdmissionHandle { number, slots, is_admitted: AtomicBool::new(false) })
    }
}

impl AdmissionHandle {
    /// Protects the connection from eviction.
    pub fn admit(&self) {
        if !self.is_admitted.load(Ordering::Relaxed) {
            lock(&self.slots).remove_unauthenticated(self.number);
            self.is_admitted.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = lock(&self.slots);
        // The slot of an evicted connection was released when it was evicted.
        if !slots.evicted.remove(&self.number) {
            slots.remove_unauthenticated(self.number);
            slots.release(self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// A limiter without a grace.
    fn limiter(limit: usize) -> ConnectionLimiter {
        ConnectionLimiter::new(limit, Duration::ZERO)
    }

    /// The slot of an admitted connection.
    fn admitted(limiter: &ConnectionLimiter, address: IpAddr) -> Option<Slot> {
        let slot = limiter.acquire(address)?;
        slot.admission().admit();
        Some(slot)
    }

    #[test]
    fn limit_applies_to_each_network_by_itself() {
        let limiter = limiter(2);
        let held = [admitted(&limiter, ONE), admitted(&limiter, ONE)];
        assert!(held.iter().all(Option::is_some));
        assert!(limiter.acquire(ONE).is_none());
        assert!(limiter.acquire(OTHER).is_some());
        drop(held);
        assert!(limiter.acquire(ONE).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_share() {
        let limiter = limiter(2);
        let take = |address: &str| admitted(&limiter, address.parse().unwrap());
        let held = [take("2001:db8::1"), take("2001:db8::2")];
        assert!(held.iter().all(Option::is_some));
        assert!(take("2001:db8::3").is_none());
        assert!(take("2001:db8:0:1::1").is_some());
        let mapped = [take("::ffff:10.0.0.1"), take("10.0.0.1")];
        assert!(mapped.iter().all(Option::is_some) && take("::ffff:10.0.0.1").is_none());
    }

    #[test]
    fn closed_connections_leave_no_entries() {
        let limiter = limiter(1);
        drop(limiter.acquire(ONE));
        let slots = lock(&limiter.slots);
        assert!(
            slots.in_use.is_empty() && slots.unauthenticated.is_empty() && slots.unauthenticated_by_network.is_empty()
        );
    }

    /// A connection that sends nothing.
    fn idle_connection(
        limiter: &ConnectionLimiter,
        address: IpAddr,
    ) -> (Arc<AdmissionHandle>, tokio::task::JoinHandle<()>) {
        let slot = limiter.acquire(address).unwrap();
        let admission = slot.admission();
        let task = tokio::spawn(async move {
            let _held = slot;
            std::future::pending::<()>().await;
        });
        limiter.set_task(&admission, task.abort_handle());
        (admission, task)
    }

    #[tokio::test]
    async fn oldest_unauthenticated_connection_is_evicted_and_admitted_ones_stay() {
        let limiter = limiter(3);
        let (known, stays) = idle_connection(&limiter, ONE);
        let (_, first) = idle_connection(&limiter, ONE);
        let (_, second) = idle_connection(&limiter, ONE);
        known.admit();
        let (later, last) = idle_connection(&limiter, ONE);
        assert!(first.await.unwrap_err().is_cancelled());
        later.admit();
        assert!(!stays.is_finished() && !second.is_finished() && !last.is_finished());
        let (latest, _task) = idle_connection(&limiter, ONE);
        assert!(second.await.unwrap_err().is_cancelled());
        latest.admit();
        // All are admitted now, and the next one has to wait.
        assert!(limiter.acquire(ONE).is_none());
        assert_eq!(limiter.evict_oldest(), None);
        assert!(!stays.is_finished() && !last.is_finished());
        let slots = lock(&limiter.slots);
        assert!(
            slots.unauthenticated.is_empty() && slots.unauthenticated_by_network.is_empty() && slots.evicted.is_empty()
        );
        assert_eq!(slots.in_use[&ONE], 3);
    }

    #[tokio::test(start_paused = true)]
    async fn unauthenticated_connections_are_kept_within_their_grace() {
        const EVICTION_GRACE_PERIOD: Duration = Duration::from_secs(5);
        let limiter = ConnectionLimiter::new(2, EVICTION_GRACE_PERIOD);
        let (_, first) = idle_connection(&limiter, ONE);
        tokio::time::advance(Duration::from_secs(2)).await;
        let (_, second) = idle_connection(&limiter, ONE);
        // Both may be about to be served.
        assert!(limiter.acquire(ONE).is_none());
        assert_eq!(limiter.evict_oldest(), Some(Duration::from_secs(3)));
        tokio::time::advance(Duration::from_secs(3)).await;
        let third = limiter.acquire(ONE).unwrap();
        assert!(third.has_evicted);
        assert!(first.await.unwrap_err().is_cancelled());
        // The next one is still within its grace, for every network.
        assert!(limiter.acquire(ONE).is_none());
        assert_eq!(limiter.evict_oldest(), Some(Duration::from_secs(2)));
        assert!(!second.is_finished());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(limiter.evict_oldest(), None);
        assert!(second.await.unwrap_err().is_cancelled());
        assert!(!limiter.acquire(ONE).unwrap().has_evicted);
    }
}
