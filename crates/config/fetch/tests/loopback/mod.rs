//! The fetcher against real servers on loopback, well-behaved and otherwise.

// The lint's exception for tests does not reach the functions that they share.
mod http;
mod limits;
mod objects;
mod operator;
mod policy;
mod proxies;
mod redirects;
mod reuse;
mod secrets;
mod support;
mod tls;
