//! `seaworthy server` as a process: from a folder, with a certificate, to a machine that presents a token.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use crate::program::Program;

/// Certificates are checked for changes every two seconds; this is for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The server, until the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn machine_gets_its_config_from_a_folder_by_its_token_and_others_see_that_it_did() {
    let home = Program::new();
    let meta = |kind: &str, name: &str| json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": name}});
    let mut pool = meta("MachineConfigPool", "master");
    pool["spec"] = json!({});
    pool["status"] = json!({"configuration": {"name": "rendered-master-1"}});
    home.file("base/machine-pools/master.yaml", pool.to_string());
    let mut config = meta("MachineConfig", "rendered-master-1");
    config["spec"] = json!({"config": {"ignition": {"version": "3.5.0"}}});
    home.file("base/machine-configs/rendered-master-1.yaml", config.to_string());
    let mut controller = meta("ControllerConfig", "machine-config-controller");
    controller["spec"] = json!({"kubeAPIServerServingCAData": "Y2E="});
    home.file("base/controller-config/machine-config-controller.yaml", controller.to_string());
    home.file("kubeconfig", "kind: Config\n");
    home.file("tokens", "# for masters\na-token\n");
    let certify = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        home.file("tls.crt", certificate.pem());
        home.file("tls.key", key.serialize_pem());
        certificate.der().clone()
    };
    let certificate = certify();

    let arguments = [
        "server",
        "--listen",
        "127.0.0.1:0",
        "--cert",
        "tls.crt",
        "--key",
        "tls.key",
        "--bootstrap",
        "base",
        "--node-kubeconfig",
        "kubeconfig",
        "--token-file",
        "tokens",
        "--metrics",
        "127.0.0.1:0",
        "--log-format",
        "json",
    ];
    let mut command = home.command(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut running = Running(child);
    let address = lines.next().expect("it says where it listens").unwrap();
    let address = address.strip_prefix("https://").unwrap().to_owned();

    let mut stderr = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let mut events = stderr.by_ref().map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    let probes = events.find(|event| event["message"] == "serving probes").unwrap();
    let probe = |path: &str| {
        let mut stream = TcpStream::connect(probes["address"].as_str().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };

    let trusting = |certificate: &CertificateDer<'static>| {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    };
    let ask_by = |config: &Arc<ClientConfig>, headers: &str| {
        let connection = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost").unwrap()).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(&address).unwrap());
        write!(stream, "GET /config/master HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let config = trusting(&certificate);
    let ask = |headers: &str| ask_by(&config, headers).unwrap();
    let mut answer = ask("authorization: Bearer a-token\r\n");
    // The folder is read a moment after the port is open.
    while answer.starts_with("HTTP/1.1 503 ") {
        answer = ask("authorization: Bearer a-token\r\n");
    }
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\"version\":\"2.2.0\"") && answer.contains("/etc/kubernetes/kubelet-ca.crt"), "{answer}");
    assert!(ask("").starts_with("HTTP/1.1 401 "));
    assert!(ask("authorization: Bearer another\r\n").starts_with("HTTP/1.1 401 "));

    assert!(probe("/readyz").starts_with("HTTP/1.1 200 "));
    let page = probe("/metrics");
    for line in [
        "seaworthy_endpoint_requests_total{pool=\"master\",version=\"2.2.0\",code=\"200\"} 1\n",
        "seaworthy_endpoint_refused_total{reason=\"access\"} 2\n",
        "seaworthy_endpoint_answers_age_seconds{pool=\"master\"} ",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }

    // The certificate is exchanged on the disk, half of it at first, and the old one does not count any more.
    home.file("tls.key", "nonsense");
    let renewed = trusting(&certify());
    let until = Instant::now() + WAIT_TIMEOUT;
    while ask_by(&renewed, "").is_err() {
        assert!(Instant::now() < until, "the new certificate is not shown");
    }
    assert!(ask_by(&config, "").is_err(), "the old certificate is still shown");

    // So are the tokens: what is taken back opens nothing any more.
    home.file("tokens", "next-one\n");
    let status = |token: &str| {
        let answer = ask_by(&renewed, &format!("authorization: Bearer {token}\r\n")).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    while status("next-one") != "200" {
        assert!(Instant::now() < until, "the new token does not count");
    }
    assert_eq!(status("a-token"), "401");

    running.0.kill().unwrap();
    let lines: Vec<String> = stderr.map_while(Result::ok).collect();
    let log = lines.join("\n");
    let events: Vec<serde_json::Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let served = events.iter().find(|event| event["status"] == 200).unwrap();
    assert_eq!((&served["path"], &served["pool"]), (&json!("/config/master"), &json!("master")), "{log}");
    assert_eq!(served["bytes"], served["sent"], "{log}");
    assert!(!log.contains("a-token") && !log.contains("another") && !log.contains("next-one"), "{log}");
}
