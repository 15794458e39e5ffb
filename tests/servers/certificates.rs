//! Certificates: an authority, a server's and a client's that it signed, and an authority that signed nothing.

use std::fs;
use std::sync::OnceLock;

use super::directory::Directory;

/// Files in PEM, readable for the servers and for us.
pub struct Certificates {
    directory: Directory,
}

/// A name that the server's certificate is for and that no machine knows, alone and in full, as of a service in Kubernetes.
pub const SERVICE: &str = "locks-db";
pub const CLUSTER: &str = "ops.svc.cluster.example";

/// What `openssl ca` needs to be told.
const CA: &str = "\
[ca]
default_ca = all
[all]
database = index
serial = serial
new_certs_dir = .
policy = any
default_md = sha256
[any]
commonName = supplied
";

/// The same for all servers of this process.
pub fn certificates() -> &'static Certificates {
    static CERTIFICATES: OnceLock<Certificates> = OnceLock::new();
    CERTIFICATES.get_or_init(Certificates::new)
}

impl Certificates {
    fn new() -> Self {
        let certificates = Self { directory: Directory::new() };
        // Nothing comes from the machine's configuration, which would add extensions.
        certificates.directory.run("sh", &["-c", "printf '[req]\ndistinguished_name=dn\n[dn]\n' >empty.cnf"]);
        let authority = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"];
        certificates.make("authority", "shedlock test authority", &authority, None);
        certificates.make("stranger", "an authority that signed nothing", &authority, None);
        // Also for a client: the gateway of etcd shows it to etcd itself.
        let leaf = [
            "basicConstraints=critical,CA:FALSE",
            &format!("subjectAltName=DNS:localhost,DNS:{SERVICE},DNS:{SERVICE}.{CLUSTER},IP:127.0.0.1"),
        ];
        certificates.make(
            "server",
            "localhost",
            &[&leaf, ["extendedKeyUsage=serverAuth,clientAuth"].as_slice()].concat(),
            Some("authority"),
        );
        certificates.make_expired(&leaf);
        let client = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth"];
        certificates.make("client", "jobs", &client, Some("authority"));
        certificates
    }

    /// The authority that signed the server's and the client's certificate.
    pub fn authority(&self) -> String {
        self.directory.file("authority.crt")
    }

    /// Another authority, which signed nothing.
    pub fn stranger(&self) -> String {
        self.directory.file("stranger.crt")
    }

    /// The certificate of the server, for `localhost`, `127.0.0.1` and [`SERVICE`].
    pub fn server(&self) -> String {
        self.directory.file("server.crt")
    }

    pub fn server_key(&self) -> String {
        self.directory.file("server.key")
    }

    /// The certificate of a server with the same names, which expired years ago.
    pub fn expired(&self) -> String {
        self.directory.file("expired.crt")
    }

    pub fn expired_key(&self) -> String {
        self.directory.file("expired.key")
    }

    /// The certificate of a client that is called `jobs`.
    pub fn client(&self) -> String {
        self.directory.file("client.crt")
    }

    pub fn client_key(&self) -> String {
        self.directory.file("client.key")
    }

    /// Makes the certificate that has expired, signed by the authority. Only `openssl ca` can date one back.
    fn make_expired(&self, extensions: &[&str]) {
        fs::write(self.directory.file("ca.cnf"), CA).unwrap();
        fs::write(self.directory.file("leaf.cnf"), extensions.join("\n") + "\n").unwrap();
        self.directory.run(
            "sh",
            &[
                "-ec",
                "touch index && echo 01 >serial
                openssl req -new -config empty.cnf -subj /CN=localhost -nodes -newkey ec \
                    -pkeyopt ec_paramgen_curve:prime256v1 -keyout expired.key -out expired.csr
                openssl ca -batch -config ca.cnf -cert authority.crt -keyfile authority.key -notext \
                    -startdate 20200101000000Z -enddate 20200201000000Z -extfile leaf.cnf -in expired.csr -out expired.crt",
            ],
        );
    }

    /// Makes `NAME.key` and `NAME.crt`, signed by the authority of that name or by itself. Valid for ten years, since
    /// some tests run with another clock.
    fn make(&self, name: &str, subject: &str, extensions: &[&str], signer: Option<&str>) {
        let [key, certificate] = [format!("{name}.key"), format!("{name}.crt")];
        let subject = format!("/CN={subject}");
        let mut arguments = vec!["req", "-x509", "-config", "empty.cnf", "-days", "3650", "-subj", &subject, "-nodes"];
        arguments.extend([
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ]);
        arguments.extend(extensions.iter().flat_map(|extension| ["-addext", *extension]));
        let signer = signer.map(|signer| [format!("{signer}.crt"), format!("{signer}.key")]);
        if let Some([certificate, key]) = &signer {
            arguments.extend(["-CA", certificate, "-CAkey", key]);
        }
        self.directory.run("openssl", &arguments);
    }
}
