//! How often one address may ask.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use seaworthy_listen::network;

/// Addresses that are remembered at a time. Each costs some tens of bytes.
const ADDRESSES: usize = 16 * 1024;

/// What an address may ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Requests a second in the long run.
    pub a_second: f64,
    /// Requests at once.
    pub at_once: f64,
}

/// The two counts that are kept.
///
/// Machines behind one address, such as a balancer's, must not wait for each other, nor for a stranger among them: who is
/// let in is counted apart from who is not, and may ask ten times as often.
pub struct Rates {
    /// Of those who are let in.
    pub known: Rate,
    /// Of those who are not.
    pub strangers: Rate,
}

impl Rates {
    /// For those who are let in, so many requests of an address a second in the long run, and so many at once.
    pub fn new(a_second: f64, at_once: f64) -> Rates {
        let rate = |share: f64| Rate::new(Some(Allowance { a_second: a_second * share, at_once: at_once * share }));
        Rates { known: rate(1.0), strangers: rate(0.1) }
    }
}

/// As many as anybody likes.
impl Default for Rates {
    fn default() -> Self {
        Rates { known: Rate::new(None), strangers: Rate::new(None) }
    }
}

/// Counts the requests of every address.
pub struct Rate {
    allowance: Option<Allowance>,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

struct Bucket {
    left: f64,
    at: Instant,
}

impl Rate {
    /// Lets every address ask this often; without an allowance as often as it likes.
    pub fn new(allowance: Option<Allowance>) -> Rate {
        Rate { allowance, buckets: Mutex::default() }
    }

    /// Whether an address may ask now.
    pub fn allows(&self, address: IpAddr, now: Instant) -> bool {
        let Some(allowance) = self.allowance else { return true };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= ADDRESSES {
            // Whoever could ask at full again is no different from a stranger.
            buckets.retain(|_, bucket| bucket.filled(allowance, now) < allowance.at_once);
        }
        if buckets.len() >= ADDRESSES {
            // So many addresses at once are a flood, which a table does not stop; it must not grow with it.
            buckets.clear();
        }
        let bucket = buckets.entry(network(address)).or_insert(Bucket { left: allowance.at_once, at: now });
        bucket.left = bucket.filled(allowance, now);
        bucket.at = now;
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

impl Bucket {
    fn filled(&self, allowance: Allowance, now: Instant) -> f64 {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * allowance.a_second;
        (self.left + gained).min(allowance.at_once)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ALLOWANCE: Allowance = Allowance { a_second: 2.0, at_once: 3.0 };

    fn allowed(rate: &Rate, address: &str, now: Instant) -> usize {
        (0..10).filter(|_| rate.allows(address.parse().unwrap(), now)).count()
    }

    #[test]
    fn address_that_asks_too_often_waits_and_others_do_not() {
        let rate = Rate::new(Some(ALLOWANCE));
        let now = Instant::now();
        assert_eq!(allowed(&rate, "10.0.0.1", now), 3);
        assert_eq!(allowed(&rate, "10.0.0.2", now), 3);
        assert_eq!(allowed(&rate, "10.0.0.1", now + Duration::from_secs(1)), 2);
        assert_eq!(allowed(&rate, "10.0.0.1", now + Duration::from_secs(60)), 3);
    }

    #[test]
    fn network_of_ipv6_counts_as_one() {
        let rate = Rate::new(Some(ALLOWANCE));
        let now = Instant::now();
        assert_eq!(allowed(&rate, "2001:db8::1", now), 3);
        assert_eq!(allowed(&rate, "2001:db8::2", now), 0);
        assert_eq!(allowed(&rate, "2001:db8:0:1::1", now), 3);
        assert_eq!(allowed(&rate, "::ffff:10.0.0.1", now), 3);
        assert_eq!(allowed(&rate, "10.0.0.1", now), 0);
    }

    #[test]
    fn table_does_not_grow_with_the_number_of_strangers() {
        let rate = Rate::new(Some(ALLOWANCE));
        let now = Instant::now();
        for bits in 0..3 * u32::try_from(ADDRESSES).unwrap() {
            rate.allows(IpAddr::V4(bits.into()), now);
        }
        assert!(rate.buckets.lock().unwrap().len() <= ADDRESSES);
    }

    #[test]
    fn without_an_allowance_nobody_waits() {
        assert_eq!(allowed(&Rate::new(None), "10.0.0.1", Instant::now()), 10);
    }
}
