//! How many connections each address has, so that none takes them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The connections of every address that has any.
pub struct Places {
    limit: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection's place; given back when it is dropped.
pub struct Place {
    address: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Places {
    /// Room for so many of each address.
    pub fn new(limit: usize) -> Places {
        Places { limit, taken: Arc::default() }
    }

    /// A place for one more connection of this address, if there is one.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Place { address, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_its_share_and_others_have_theirs() {
        let places = Places::new(2);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let held = [places.take(one), places.take(one)];
        assert!(held.iter().all(Option::is_some));
        assert!(places.take(one).is_none());
        assert!(places.take(other).is_some());
        drop(held);
        assert!(places.take(one).is_some());
    }

    #[test]
    fn nothing_is_remembered_of_those_who_left() {
        let places = Places::new(1);
        drop(places.take(IpAddr::from([10, 0, 0, 1])));
        assert!(places.taken.lock().unwrap().is_empty());
    }
}
