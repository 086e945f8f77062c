//! Who has a place: no network takes them all, and where there are none left, whoever has shown nothing yet makes room.
//!
//! A connection begins as a stranger's, and stays one until somebody says otherwise ([`Guest::admit`]). Strangers who hold
//! places and say nothing can so keep nobody out who comes after them, not even behind the same address.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::warn;

/// How often it is told that there are more connections than places.
const REPEAT: Duration = Duration::from_secs(60);

/// Whoever has one IPv6 address has 2⁶⁴ of them: what counts as one client.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

/// The connections of every network that has any.
pub struct Places {
    limit: usize,
    seats: Arc<Mutex<Seats>>,
}

#[derive(Default)]
struct Seats {
    /// The number of the next connection.
    next: u64,
    taken: HashMap<IpAddr, usize>,
    /// Connections that nobody has vouched for, the oldest first; the one that just came has no task yet.
    strangers: BTreeMap<u64, (IpAddr, Option<AbortHandle>)>,
    /// The same by network.
    of_network: BTreeSet<(IpAddr, u64)>,
    /// Connections that had to leave, until they have.
    leaving: HashSet<u64>,
    /// How many had to leave or were not let in since it was told, and when that was.
    turned_away: u64,
    told: Option<Instant>,
}

/// One connection's place; given back when it is dropped.
pub struct Place {
    number: u64,
    network: IpAddr,
    seats: Arc<Mutex<Seats>>,
}

/// Vouches for a connection.
pub struct Guest {
    number: u64,
    seats: Arc<Mutex<Seats>>,
    is_admitted: AtomicBool,
}

fn lock(seats: &Mutex<Seats>) -> MutexGuard<'_, Seats> {
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Room for so many of each network.
    pub fn new(limit: usize) -> Places {
        Places { limit, seats: Arc::default() }
    }

    /// A place for one more connection of this address. Where its network has none left its oldest stranger leaves; without
    /// one there is no place.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let (network, mut seats) = (network(address), lock(&self.seats));
        if seats.taken.get(&network).is_some_and(|count| *count >= self.limit) {
            let oldest = seats.of_network.range((network, 0)..=(network, u64::MAX)).next().map(|(_, number)| *number);
            seats.tell(network);
            seats.dismiss(oldest?);
        }
        *seats.taken.entry(network).or_default() += 1;
        seats.next += 1;
        let number = seats.next;
        seats.strangers.insert(number, (network, None));
        seats.of_network.insert((network, number));
        Some(Place { number, network, seats: Arc::clone(&self.seats) })
    }

    /// Has the oldest stranger of all leave, if there is one.
    pub fn make_room(&self) {
        let mut seats = lock(&self.seats);
        let oldest = seats.strangers.iter().find(|(_, (_, task))| task.is_some());
        if let Some((number, network)) = oldest.map(|(number, (network, _))| (*number, *network)) {
            seats.tell(network);
            seats.dismiss(number);
        }
    }

    /// From now on, until somebody vouches for it, this task can be ended to make room.
    pub fn seat(&self, guest: &Guest, task: AbortHandle) {
        // It may have been quicker, and be gone or known.
        if let Some((_, seated)) = lock(&self.seats).strangers.get_mut(&guest.number) {
            *seated = Some(task);
        }
    }
}

impl Seats {
    fn dismiss(&mut self, number: u64) {
        if let Some((network, task)) = self.forget(number) {
            task.iter().for_each(AbortHandle::abort);
            self.leaving.insert(number);
            self.give_back(network);
        }
    }

    fn forget(&mut self, number: u64) -> Option<(IpAddr, Option<AbortHandle>)> {
        let (network, task) = self.strangers.remove(&number)?;
        self.of_network.remove(&(network, number));
        Some((network, task))
    }

    fn give_back(&mut self, network: IpAddr) {
        if let Some(count) = self.taken.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.taken.remove(&network);
            }
        }
    }

    fn tell(&mut self, network: IpAddr) {
        self.turned_away += 1;
        if self.told.is_none_or(|told| told.elapsed() >= REPEAT) {
            let connections = std::mem::take(&mut self.turned_away);
            warn!(%network, connections, "there are more connections than places: those that have shown nothing are closed");
            self.told = Some(Instant::now());
        }
    }
}

impl Place {
    /// Whoever can vouch for this connection.
    pub fn guest(&self) -> Arc<Guest> {
        let (number, seats) = (self.number, Arc::clone(&self.seats));
        Arc::new(Guest { number, seats, is_admitted: AtomicBool::new(false) })
    }
}

impl Guest {
    /// Lets this connection keep its place, whoever comes.
    pub fn admit(&self) {
        if !self.is_admitted.load(Ordering::Relaxed) {
            lock(&self.seats).forget(self.number);
            self.is_admitted.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut seats = lock(&self.seats);
        // Whoever had to leave has given its place back already.
        if !seats.leaving.remove(&self.number) {
            seats.forget(self.number);
            seats.give_back(self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// A place of somebody who was let in.
    fn known(places: &Places, address: IpAddr) -> Option<Place> {
        let place = places.take(address)?;
        place.guest().admit();
        Some(place)
    }

    #[test]
    fn network_has_its_share_and_others_have_theirs() {
        let places = Places::new(2);
        let held = [known(&places, ONE), known(&places, ONE)];
        assert!(held.iter().all(Option::is_some));
        assert!(places.take(ONE).is_none());
        assert!(places.take(OTHER).is_some());
        drop(held);
        assert!(places.take(ONE).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_share() {
        let places = Places::new(2);
        let take = |address: &str| known(&places, address.parse().unwrap());
        let held = [take("2001:db8::1"), take("2001:db8::2")];
        assert!(held.iter().all(Option::is_some));
        assert!(take("2001:db8::3").is_none());
        assert!(take("2001:db8:0:1::1").is_some());
        let mapped = [take("::ffff:10.0.0.1"), take("10.0.0.1")];
        assert!(mapped.iter().all(Option::is_some) && take("::ffff:10.0.0.1").is_none());
    }

    #[test]
    fn nothing_is_remembered_of_those_who_left() {
        let places = Places::new(1);
        drop(places.take(ONE));
        let seats = lock(&places.seats);
        assert!(seats.taken.is_empty() && seats.strangers.is_empty() && seats.of_network.is_empty());
    }

    /// A connection that does nothing.
    fn seated(places: &Places, address: IpAddr) -> (Arc<Guest>, tokio::task::JoinHandle<()>) {
        let place = places.take(address).unwrap();
        let guest = place.guest();
        let task = tokio::spawn(async move {
            let _held = place;
            std::future::pending::<()>().await;
        });
        places.seat(&guest, task.abort_handle());
        (guest, task)
    }

    #[tokio::test]
    async fn oldest_stranger_makes_room_and_whoever_was_let_in_stays() {
        let places = Places::new(3);
        let (known, stays) = seated(&places, ONE);
        let (_, first) = seated(&places, ONE);
        let (_, second) = seated(&places, ONE);
        known.admit();
        let (later, last) = seated(&places, ONE);
        assert!(first.await.unwrap_err().is_cancelled());
        later.admit();
        assert!(!stays.is_finished() && !second.is_finished() && !last.is_finished());
        let (latest, _task) = seated(&places, ONE);
        assert!(second.await.unwrap_err().is_cancelled());
        latest.admit();
        // All are known now, and the next one has to wait.
        assert!(places.take(ONE).is_none());
        places.make_room();
        assert!(!stays.is_finished() && !last.is_finished());
        let seats = lock(&places.seats);
        assert!(seats.strangers.is_empty() && seats.of_network.is_empty() && seats.leaving.is_empty());
        assert_eq!(seats.taken[&ONE], 3);
    }
}
