//! The clouds' own endpoints, played by one server behind a proxy.

use seaworthy_fetch::{Fetcher, Request};

use super::certificates::Authority;
use super::proxy::TestProxy;
use super::server::{Reply, Seen, Server};
use super::{environment, fetcher_with, policy};

/// One server behind a proxy.
pub struct Cloud {
    pub server: Server,
    pub proxy: TestProxy,
    pub authority: Authority,
}

impl Cloud {
    pub async fn start(names: &[&str], handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let authority = Authority::new();
        let server = Server::start_tls(authority.acceptor(names), move |seen, _| handler(seen)).await;
        let proxy = TestProxy::leading_to(server.address).await;
        Self { server, proxy, authority }
    }

    /// A request whose config names this proxy and this authority.
    pub fn request(&self, url: &str) -> Request {
        let mut request = Request::resource(url);
        request.settings.proxy.https = Some(format!("http://{}", self.proxy.address));
        request.settings.certificate_authorities = vec![self.authority.pem()];
        request
    }

    /// A fetcher whose operator, unlike any config, names this proxy and this authority. Its policy
    /// allows nothing, since an operator's proxy needs no permission.
    pub fn trusted_by_operator(&self, variables: &[(&str, &str)]) -> Fetcher {
        let proxy = format!("http://{}", self.proxy.address);
        let all = [&[("HTTPS_PROXY", proxy.as_str())], variables].concat();
        let fetcher = fetcher_with(policy(&[])).with_authorities(&[self.authority.pem()]).unwrap();
        fetcher.with_environment(environment(&all))
    }
}
