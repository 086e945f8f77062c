//! [`RateLimits`]: limits the requests of each client address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use seaworthy_listen::client_network;

/// Addresses that are remembered at a time. Each costs some tens of bytes.
const MAX_ADDRESSES: usize = 16 * 1024;

/// The rate of one address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second in the long run.
    pub per_second: f64,
    /// Requests at once.
    pub burst: f64,
}

/// The limits of authenticated and of other requests.
///
/// Machines behind one address, such as a load balancer's, must not wait for each other, nor for an unauthenticated client
/// among them: authenticated requests are counted separately, and may be ten times as many.
pub struct RateLimits {
    pub authenticated: RateLimiter,
    pub unauthenticated: RateLimiter,
}

impl RateLimits {
    /// For authenticated requests, `per_second` of an address in the long run, and `burst` at once.
    pub fn new(per_second: f64, burst: f64) -> RateLimits {
        let limiter =
            |share: f64| RateLimiter::new(Some(RateLimit { per_second: per_second * share, burst: burst * share }));
        RateLimits { authenticated: limiter(1.0), unauthenticated: limiter(0.1) }
    }
}

/// Unlimited.
impl Default for RateLimits {
    fn default() -> Self {
        RateLimits { authenticated: RateLimiter::new(None), unauthenticated: RateLimiter::new(None) }
    }
}

/// Counts the requests of every address.
pub struct RateLimiter {
    limit: Option<RateLimit>,
    buckets: Mutex<HashMap<IpAddr, TokenBucket>>,
}

struct TokenBucket {
    tokens: f64,
    updated: Instant,
}

impl RateLimiter {
    /// Applies the limit to every address; `None` is no limit.
    pub fn new(limit: Option<RateLimit>) -> RateLimiter {
        RateLimiter { limit, buckets: Mutex::default() }
    }

    /// Whether a request of an address is within its limit, and counts it.
    pub fn allows(&self, address: IpAddr, now: Instant) -> bool {
        let Some(limit) = self.limit else { return true };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_ADDRESSES {
            // A full bucket is no different from that of a new address.
            buckets.retain(|_, bucket| bucket.filled(limit, now) < limit.burst);
        }
        if buckets.len() >= MAX_ADDRESSES {
            // So many addresses at once are a flood, which rate limits do not stop; the table must not grow with it.
            buckets.clear();
        }
        let bucket =
            buckets.entry(client_network(address)).or_insert(TokenBucket { tokens: limit.burst, updated: now });
        bucket.tokens = bucket.filled(limit, now);
        bucket.updated = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

impl TokenBucket {
    fn filled(&self, limit: RateLimit, now: Instant) -> f64 {
        let gained = now.saturating_duration_since(self.updated).as_secs_f64() * limit.per_second;
        (self.tokens + gained).min(limit.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMIT: RateLimit = RateLimit { per_second: 2.0, burst: 3.0 };

    fn allowed(limiter: &RateLimiter, address: &str, now: Instant) -> usize {
        (0..10).filter(|_| limiter.allows(address.parse().unwrap(), now)).count()
    }

    #[test]
    fn address_above_its_limit_waits_and_others_do_not() {
        let limiter = RateLimiter::new(Some(LIMIT));
        let now = Instant::now();
        assert_eq!(allowed(&limiter, "10.0.0.1", now), 3);
        assert_eq!(allowed(&limiter, "10.0.0.2", now), 3);
        assert_eq!(allowed(&limiter, "10.0.0.1", now + Duration::from_secs(1)), 2);
        assert_eq!(allowed(&limiter, "10.0.0.1", now + Duration::from_secs(60)), 3);
    }

    #[test]
    fn network_of_ipv6_counts_as_one() {
        let limiter = RateLimiter::new(Some(LIMIT));
        let now = Instant::now();
        assert_eq!(allowed(&limiter, "2001:db8::1", now), 3);
        assert_eq!(allowed(&limiter, "2001:db8::2", now), 0);
        assert_eq!(allowed(&limiter, "2001:db8:0:1::1", now), 3);
        assert_eq!(allowed(&limiter, "::ffff:10.0.0.1", now), 3);
        assert_eq!(allowed(&limiter, "10.0.0.1", now), 0);
    }

    #[test]
    fn table_does_not_grow_with_the_number_of_addresses() {
        let limiter = RateLimiter::new(Some(LIMIT));
        let now = Instant::now();
        for bits in 0..3 * u32::try_from(MAX_ADDRESSES).unwrap() {
            limiter.allows(IpAddr::V4(bits.into()), now);
        }
        assert!(limiter.buckets.lock().unwrap().len() <= MAX_ADDRESSES);
    }

    #[test]
    fn without_a_limit_no_request_waits() {
        assert_eq!(allowed(&RateLimiter::new(None), "10.0.0.1", Instant::now()), 10);
    }
}
