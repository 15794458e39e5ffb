//! The API server of Kubernetes with authorization by RBAC, and etcd as its store. No controller and no node: Leases need
//! neither.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::OnceLock;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::certificates::certificates;
use super::directory::Directory;
use super::etcd::Etcd;
use super::program;
use super::server::{Plan, Server};

/// The token of somebody who may do everything, and that of a client whom the server knows and who may do nothing.
pub const KEEPER: &str = "keeper-token";
pub const STRANGER: &str = "stranger-token";

/// An API server. Its data are in its etcd, and outlive `kill`.
pub struct Kubernetes {
    /// A port without TLS before it, as of `kubectl proxy`, once somebody has asked for it.
    plain: OnceLock<Server>,
    // Ends before its store.
    server: Server,
    pub etcd: Etcd,
}

/// A namespace of a server.
#[derive(Debug, Clone)]
pub struct Namespace {
    pub name: String,
    port: u16,
    /// The port without TLS.
    plain: Option<u16>,
    /// The file of the keeper's token.
    token: String,
}

impl Kubernetes {
    /// A server of a test's own, with more arguments.
    pub fn fresh(arguments: &[&str]) -> Self {
        let etcd = Etcd::fresh();
        let server = Server::new(|directory, port| plan(directory, port, etcd.port(), arguments));
        Self { plain: OnceLock::new(), server, etcd }
    }

    /// A new namespace.
    pub fn namespace(&self) -> Namespace {
        let name = program::unique("jobs").replace('_', "-");
        let namespace = Namespace {
            name: name.clone(),
            port: self.port(),
            plain: None,
            token: self.directory().file("keeper.token"),
        };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        namespace.request("POST", "/api/v1/namespaces", &body.to_string());
        namespace
    }
}

impl Kubernetes {
    /// A new namespace that is reached by a port without TLS, where a relay can look into requests.
    pub fn plain_namespace(&self) -> Namespace {
        Namespace { plain: Some(self.plain_port()), ..self.namespace() }
    }

    /// The port without TLS. It stays when the server is killed.
    pub fn plain_port(&self) -> u16 {
        let plain = self.plain.get_or_init(|| {
            Server::new(|_, port| {
                let server = format!("OPENSSL:127.0.0.1:{},cafile={}", self.port(), certificates().authority());
                let start = ["socat", &format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork"), &server];
                let ask = ["curl", "--silent", "--fail", &format!("http://127.0.0.1:{port}/readyz")];
                Plan {
                    start: start.map(str::to_owned).into(),
                    ask: ask.map(str::to_owned).into(),
                    stop: Signal::SIGTERM,
                }
            })
        });
        plain.port()
    }
}

impl Deref for Kubernetes {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Namespace {
    /// The URL by which the keeper reaches it.
    pub fn url(&self) -> String {
        match self.plain {
            None => self.url_at(&format!("127.0.0.1:{}", self.port), &self.token),
            Some(port) => {
                format!("kubernetes://127.0.0.1:{port}/{}?sslmode=disable&token-file={}", self.name, self.token)
            }
        }
    }

    /// The URL with another address and file of a token.
    pub fn url_at(&self, address: &str, token: &str) -> String {
        let authority = certificates().authority();
        format!("kubernetes://{address}/{}?token-file={token}&sslrootcert={authority}", self.name)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of a Lease, or of all.
    pub fn leases(&self, below: &str) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases{below}", self.name)
    }

    /// Sends a request as the keeper; the status and the answer.
    #[track_caller]
    pub fn try_request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.ask(method, path, body).unwrap_or_else(|complaint| panic!("curl: {complaint}"))
    }

    /// The same for a server that may be down or frozen.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Result<(u16, Value), String> {
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        let kind = if body.starts_with('{') { "application/json" } else { "application/yaml" };
        let mut command = program::command("curl");
        command.args(["--silent", "--show-error", "--cacert", &certificates().authority(), "--request", method]);
        command.args(["--max-time", "20", "--header", &format!("Authorization: Bearer {KEEPER}")]);
        command.args(["--header", &format!("Content-Type: {kind}"), "--write-out", "\n%{http_code}"]);
        if !body.is_empty() {
            command.args(["--data-binary", body]);
        }
        let said = program::output(command.arg(url))?;
        let (answer, status) = said.rsplit_once('\n').ok_or("curl says nothing")?;
        let status = status.parse().map_err(|_| format!("no status: {status}"))?;
        Ok((status, serde_json::from_str(answer).unwrap_or(Value::Null)))
    }

    /// Sends what has to succeed.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, answer) = self.try_request(method, path, body);
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Carries out manifests as `kubectl apply` does the first time: what is there already stays.
    #[track_caller]
    pub fn apply(&self, manifests: &str) {
        for manifest in manifests.split("\n---\n") {
            let kind = manifest.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap();
            let group = if kind == "ServiceAccount" { "/api/v1" } else { "/apis/rbac.authorization.k8s.io/v1" };
            let path = format!("{group}/namespaces/{}/{}s", self.name, kind.to_lowercase());
            let (status, answer) = self.try_request("POST", &path, manifest);
            assert!([201, 409].contains(&status), "{kind}: {status} {answer}");
        }
    }

    /// A token of a service account, as a pod gets it.
    #[track_caller]
    pub fn token_of(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", self.name);
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = self.request("POST", &path, &body.to_string());
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

fn plan(directory: &Directory, port: u16, etcd: u16, arguments: &[&str]) -> Plan {
    let certificates = certificates();
    let file = |name: &str, text: &str| {
        let path = directory.file(name);
        fs::write(&path, text).unwrap();
        path
    };
    file("keeper.token", KEEPER);
    file("stranger.token", STRANGER);
    let tokens =
        file("tokens.csv", &format!("{KEEPER},keeper,keeper,\"system:masters\"\n{STRANGER},stranger,stranger\n"));
    let signing = directory.file("accounts.key");
    directory.run("openssl", &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &signing]);
    let mut start = vec![built().display().to_string()];
    start.extend([
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", directory.file("certificates")),
        format!("--tls-cert-file={}", certificates.server()),
        format!("--tls-private-key-file={}", certificates.server_key()),
        format!("--client-ca-file={}", certificates.authority()),
        format!("--token-auth-file={tokens}"),
        format!("--service-account-key-file={signing}"),
        format!("--service-account-signing-key-file={signing}"),
    ]);
    let fixed = [
        "--bind-address=127.0.0.1",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",
    ];
    start.extend(fixed.iter().chain(arguments).map(|argument| (*argument).to_owned()));
    let ready = format!("https://127.0.0.1:{port}/readyz");
    let ask = ["curl", "--silent", "--fail", "--cacert", &certificates.authority(), &ready];
    Plan { start, ask: ask.map(str::to_owned).into(), stop: Signal::SIGTERM }
}

/// The program, which tests/kube-apiserver builds.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().map(|above| above.join("kube-apiserver/kube-apiserver"));
    places.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("the API server of Kubernetes is not here; tests/run builds it, or: tests/kube-apiserver/build target/kube-apiserver")
    })
}
