//! Who has a place: no network takes them all, and where there are none left, whoever has shown nothing yet makes room.
//!
//! A connection begins as a stranger's, and stays one until somebody says otherwise ([`Guest::admit`]). Strangers who hold
//! places and say nothing can so keep nobody out for long who comes after them, not even behind the same address. Whoever has
//! just come is left alone: where more come than can be served at once, the one that has waited longest is about to be served,
//! and to close it for the next one would serve nobody.

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
    newcomer: Duration,
    seats: Arc<Mutex<Seats>>,
}

#[derive(Default)]
struct Seats {
    /// The number of the next connection.
    next: u64,
    taken: HashMap<IpAddr, usize>,
    /// Connections that nobody has vouched for, the oldest first; the one that just came has no task yet.
    strangers: BTreeMap<u64, Stranger>,
    /// The same by network.
    of_network: BTreeSet<(IpAddr, u64)>,
    /// Connections that had to leave, until they have.
    leaving: HashSet<u64>,
    /// How many had to leave or were not let in since it was told, and when that was.
    turned_away: u64,
    told: Option<Instant>,
}

struct Stranger {
    network: IpAddr,
    since: Instant,
    task: Option<AbortHandle>,
}

/// One connection's place; given back when it is dropped.
pub struct Place {
    number: u64,
    network: IpAddr,
    seats: Arc<Mutex<Seats>>,
    /// Whether somebody had to leave for it.
    pub has_replaced: bool,
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
    /// Room for so many of each network; a stranger is left alone for as long as it is a newcomer.
    pub fn new(limit: usize, newcomer: Duration) -> Places {
        Places { limit, newcomer, seats: Arc::default() }
    }

    /// A place for one more connection of this address. Where its network has none left its oldest stranger leaves; if there is
    /// none, or only newcomers, there is no place.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let (network, mut seats) = (network(address), lock(&self.seats));
        let is_full = seats.taken.get(&network).is_some_and(|count| *count >= self.limit);
        if is_full {
            let oldest = seats.of_network.range((network, 0)..=(network, u64::MAX)).next().map(|(_, number)| *number);
            seats.tell(network);
            let oldest = oldest.filter(|number| seats.left_alone(*number, self.newcomer).is_none());
            seats.dismiss(oldest?);
        }
        *seats.taken.entry(network).or_default() += 1;
        seats.next += 1;
        let number = seats.next;
        seats.strangers.insert(number, Stranger { network, since: Instant::now(), task: None });
        seats.of_network.insert((network, number));
        Some(Place { number, network, seats: Arc::clone(&self.seats), has_replaced: is_full })
    }

    /// Has the oldest stranger of all leave, if there is one; a newcomer is left alone for as long as the answer says.
    pub fn make_room(&self) -> Option<Duration> {
        let mut seats = lock(&self.seats);
        let oldest = seats.strangers.iter().find(|(_, stranger)| stranger.task.is_some());
        let (number, network) = oldest.map(|(number, stranger)| (*number, stranger.network))?;
        let left_alone = seats.left_alone(number, self.newcomer);
        if left_alone.is_none() {
            seats.tell(network);
            seats.dismiss(number);
        }
        left_alone
    }

    /// From now on, until somebody vouches for it, this task can be ended to make room.
    pub fn seat(&self, guest: &Guest, task: AbortHandle) {
        // It may have been quicker, and be gone or known.
        if let Some(stranger) = lock(&self.seats).strangers.get_mut(&guest.number) {
            stranger.task = Some(task);
        }
    }
}

impl Seats {
    /// How long a stranger is still a newcomer.
    fn left_alone(&self, number: u64, newcomer: Duration) -> Option<Duration> {
        let age = self.strangers.get(&number)?.since.elapsed();
        newcomer.checked_sub(age).filter(|left| !left.is_zero())
    }

    fn dismiss(&mut self, number: u64) {
        if let Some(Stranger { network, task, .. }) = self.forget(number) {
            task.iter().for_each(AbortHandle::abort);
            self.leaving.insert(number);
            self.give_back(network);
        }
    }

    fn forget(&mut self, number: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&number)?;
        self.of_network.remove(&(stranger.network, number));
        Some(stranger)
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

    /// Nobody is a newcomer.
    fn places(limit: usize) -> Places {
        Places::new(limit, Duration::ZERO)
    }

    /// A place of somebody who was let in.
    fn known(places: &Places, address: IpAddr) -> Option<Place> {
        let place = places.take(address)?;
        place.guest().admit();
        Some(place)
    }

    #[test]
    fn network_has_its_share_and_others_have_theirs() {
        let places = places(2);
        let held = [known(&places, ONE), known(&places, ONE)];
        assert!(held.iter().all(Option::is_some));
        assert!(places.take(ONE).is_none());
        assert!(places.take(OTHER).is_some());
        drop(held);
        assert!(places.take(ONE).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_share() {
        let places = places(2);
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
        let places = places(1);
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
        let places = places(3);
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
        assert_eq!(places.make_room(), None);
        assert!(!stays.is_finished() && !last.is_finished());
        let seats = lock(&places.seats);
        assert!(seats.strangers.is_empty() && seats.of_network.is_empty() && seats.leaving.is_empty());
        assert_eq!(seats.taken[&ONE], 3);
    }

    #[tokio::test(start_paused = true)]
    async fn newcomers_are_left_alone_until_they_have_held_their_place_for_a_while() {
        const WHILE: Duration = Duration::from_secs(5);
        let places = Places::new(2, WHILE);
        let (_, first) = seated(&places, ONE);
        tokio::time::advance(Duration::from_secs(2)).await;
        let (_, second) = seated(&places, ONE);
        // Both may be about to be served.
        assert!(places.take(ONE).is_none());
        assert_eq!(places.make_room(), Some(Duration::from_secs(3)));
        tokio::time::advance(Duration::from_secs(3)).await;
        let third = places.take(ONE).unwrap();
        assert!(third.has_replaced);
        assert!(first.await.unwrap_err().is_cancelled());
        // For everybody the next one is too young.
        assert!(places.take(ONE).is_none());
        assert_eq!(places.make_room(), Some(Duration::from_secs(2)));
        assert!(!second.is_finished());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(places.make_room(), None);
        assert!(second.await.unwrap_err().is_cancelled());
        assert!(!places.take(ONE).unwrap().has_replaced);
    }
}
