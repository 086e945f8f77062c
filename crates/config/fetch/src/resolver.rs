//! [`Resolver`]: resolves host names to addresses, which the policy then checks.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// Turns a host name into addresses. Given to the fetcher, so that tests need no name server.
pub trait Resolver: Send + Sync {
    /// The addresses of `name`, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
}

/// Asks the system: hosts file, name servers, whatever it is configured to use.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
