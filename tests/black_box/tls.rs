//! HTTPS as its users meet it: certificates that `drover tls` makes, agents that speak with them, and nothing in plain where other machines
//! listen.

use crate::node::{Node, Said, path, shell_job, text};
use crate::{wait, web};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// A node with an authority and certificates in the folder `tls` beside its data.
struct Secured {
    node: Node,
}

const CA: &str = "nomad-agent-ca.pem";

impl Secured {
    fn new() -> Secured {
        let secured = Secured { node: Node::new() };
        fs::create_dir_all(secured.folder()).expect("a folder");
        secured.make(&["ca", "create"]);
        secured.make(&["cert", "create", "-server"]);
        secured
    }

    fn folder(&self) -> PathBuf {
        self.node.data_dir().with_file_name("tls")
    }

    fn file(&self, name: &str) -> String {
        path(&self.folder().join(name)).to_string()
    }

    /// `drover tls`, in the folder of certificates.
    fn tls(&self, args: &[&str]) -> Said {
        let mut command = self.node.drover_command(&[&["tls"], args].concat());
        Said::from(command.current_dir(self.folder()).output().expect("it runs"))
    }

    fn make(&self, args: &[&str]) -> String {
        self.tls(args).exits(0).to_string()
    }

    /// What the configuration says of HTTPS.
    fn block(&self, more: &str) -> String {
        format!(
            "tls {{\n http = true\n ca_file = \"{}\"\n cert_file = \"{}\"\n key_file = \"{}\"\n {more}\n}}\n",
            self.file(CA),
            self.file("global-server-nomad.pem"),
            self.file("global-server-nomad-key.pem")
        )
    }

    fn start(&mut self, more: &str) {
        let block = self.block(more);
        self.node.configure(&block);
        let config = self.node.write("start", "").with_file_name("agent.hcl");
        self.node.spawn(&["agent", "-config", path(&config)]);
        wait::until("the agent is up", || self.node.printed().contains("drover agent is up").then_some(()));
    }

    fn address(&self) -> String {
        format!("https://127.0.0.1:{}", self.node.port)
    }

    /// A command that asks over HTTPS.
    fn ask(&self, args: &[&str], env: &[(&str, &str)]) -> Said {
        let address = self.address();
        self.node.drover_with(args, &[&[("NOMAD_ADDR", address.as_str())], env].concat())
    }

    /// The same, with the authority known.
    fn ask_knowing(&self, args: &[&str]) -> Said {
        self.ask(args, &[("NOMAD_CACERT", &self.file(CA))])
    }

    /// Still running, over HTTPS.
    fn follow_log(&self) -> Child {
        let mut command = self.node.drover_command(&["monitor", "-log-level", "INFO"]);
        command.env("NOMAD_ADDR", self.address()).env("NOMAD_CACERT", self.file(CA));
        command.stdout(Stdio::piped()).spawn().expect("it runs")
    }

    #[track_caller]
    fn await_ready(&self) {
        wait::until("the node is ready", || {
            self.ask_knowing(&["node", "status"]).out.contains("ready").then_some(())
        });
    }
}

#[test]
fn certificates_are_made_once_and_keys_are_private() {
    let secured = Secured::new();
    let mode =
        |name: &str| fs::metadata(secured.folder().join(name)).expect("a file").permissions().mode() & 0o777;
    for key in ["nomad-agent-ca-key.pem", "global-server-nomad-key.pem"] {
        assert_eq!(mode(key), 0o600, "{key}");
    }
    let before = fs::read(secured.folder().join(CA)).expect("a certificate");
    secured.tls(&["ca", "create"]).fails(1, "exists already");
    secured.tls(&["cert", "create", "-server"]).fails(1, "global-server-nomad.pem exists already");
    assert_eq!(fs::read(secured.folder().join(CA)).expect("a certificate"), before);
    let made = secured.make(&["cert", "create", "-client", "-cluster-region", "eu", "-domain", "nomad"]);
    assert!(made.contains("==> Client Certificate saved to eu-client-nomad.pem"), "{made}");
    secured.tls(&["cert", "create"]).fails(1, "exactly one of");
    secured.tls(&["cert", "create", "-cli", "-ca", "nope.pem"]).fails(1, "-ca nope.pem");
    secured.tls(&["cert", "create", "-cli", "-days", "0"]).fails(1, "-days");
    secured.tls(&["ca", "create", "-domain", "../x"]).fails(1, "no name of a host");
    secured.tls(&["ca", "info"]).fails(1, "not supported yet: tls ca info");
}

#[test]
fn the_command_line_asks_over_https() {
    let mut secured = Secured::new();
    secured.start("");
    secured.await_ready();
    let ca = secured.file(CA);
    secured.ask(&["job", "status"], &[]).fails(1, "-ca-cert");
    secured.ask(&["job", "status", "-ca-cert", &ca], &[]).exits(0);
    secured.ask(&["job", "status"], &[("DROVER_CAPATH", path(&secured.folder()))]).exits(0);
    secured.ask(&["job", "status", "-tls-skip-verify"], &[]).exits(0);
    secured.ask(&["job", "status"], &[("NOMAD_SKIP_VERIFY", "true")]).exits(0);
    secured.ask(&["job", "status", "-ca-cert", "/nope"], &[]).fails(1, "-ca-cert /nope: no such file");
    let named = ["job", "status", "-ca-cert", &ca, "-tls-server-name"];
    secured.ask(&[&named[..], &["server.global.nomad"]].concat(), &[]).exits(0);
    secured.ask(&[&named[..], &["elsewhere"]].concat(), &[]).fails(1, "another name");
    let plain = web::send(secured.node.port, "GET", "/v1/jobs", "");
    assert_eq!(
        (plain.status, plain.text().as_str()),
        (400, "Client sent an HTTP request to an HTTPS server.\n")
    );
    secured.node.drover(&["job", "status"]).fails(1, "HTTPS server");

    let job = shell_job("web", "echo hello; sleep 1000").to_string();
    let file = secured.node.write("web.json", &format!("{{\"Job\": {job}}}"));
    secured.ask_knowing(&["job", "run", "-json", path(&file)]).exits(0);
    let logs = ["alloc", "logs", "-job", "web"];
    wait::until("its output is there", || (secured.ask_knowing(&logs).out == "hello\n").then_some(()));
    secured.ask_knowing(&["alloc", "exec", "-job", "web", "sh", "-c", "exit 7"]).exits(7);
    let me = secured.ask_knowing(&["operator", "api", "/v1/agent/self"]).exits(0).to_string();
    assert!(me.contains("\"EnableHTTP\":true"), "{me}");
    let nodes: serde_json::Value =
        serde_json::from_str(secured.ask_knowing(&["node", "status", "-json"]).exits(0)).expect("JSON");
    let target = format!("/v1/node/{}", text(&nodes[0]["ID"]));
    let shown = secured.ask_knowing(&["operator", "api", &target]).exits(0).to_string();
    assert!(shown.contains("\"TLSEnabled\":true"), "{shown}");
    assert!(shown.contains(&format!("\"HTTPAddr\":\"127.0.0.1:{}\"", secured.node.port)), "{shown}");
    let line = secured.ask_knowing(&["operator", "api", "-dryrun", "/v1/jobs"]).exits(0).to_string();
    assert!(line.contains(" --cacert '"), "{line}");
}

#[test]
fn callers_show_certificates_where_that_is_demanded() {
    let mut secured = Secured::new();
    secured.make(&["cert", "create", "-cli"]);
    secured.start("verify_https_client = true");
    let ca = secured.file(CA);
    let (cert, key) = (secured.file("global-cli-nomad.pem"), secured.file("global-cli-nomad-key.pem"));
    let with = |cert: &str, key: &str| {
        let env = [("NOMAD_CACERT", ca.as_str()), ("NOMAD_CLIENT_CERT", cert), ("NOMAD_CLIENT_KEY", key)];
        secured.ask(&["server", "members"], &env)
    };
    with(&cert, &key).exits(0);
    with("", "").fails(1, "-client-cert");
    with(&cert, "").fails(1, "-client-cert and -client-key go together");
    secured.ask(&["server", "members", "-tls-skip-verify"], &[]).fails(1, "-client-cert");
    let wrong = secured.file("global-server-nomad-key.pem");
    with(&cert, &wrong).fails(1, "the key is another certificate's");
}

#[test]
fn a_renewed_certificate_is_taken_up_while_the_agent_runs() {
    let mut secured = Secured::new();
    secured.start("");
    let ca = secured.file(CA);
    let mut follower = secured.follow_log();
    // the level is told with each reload: what follows the log from before the change hears of it after
    let heard = Arc::new(Mutex::new(0));
    let (out, hears) = (follower.stdout.take().expect("a pipe"), heard.clone());
    let reader = thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            *hears.lock().expect("a count") += usize::from(line.contains("log level set"));
        }
    });
    let count = || *heard.lock().expect("a count");
    wait::until("the log is followed", || {
        secured.node.signal(Signal::HUP);
        (count() > 0).then_some(())
    });
    let renamed = ["job", "status", "-ca-cert", &ca, "-tls-server-name", "renewed.example"];
    secured.ask(&renamed, &[]).fails(1, "another name");
    for name in ["global-server-nomad.pem", "global-server-nomad-key.pem"] {
        fs::remove_file(secured.folder().join(name)).expect("it is there");
    }
    secured.node.signal(Signal::HUP);
    wait::until("it says that the files are gone", || {
        secured.node.printed().contains("the one in use stays").then_some(())
    });
    secured.ask_knowing(&["job", "status"]).exits(0);
    secured.make(&["cert", "create", "-server", "-additional-dnsname", "renewed.example"]);
    secured.node.signal(Signal::HUP);
    wait::until("the new certificate is shown", || (secured.ask(&renamed, &[]).code == 0).then_some(()));
    let before = count();
    secured.node.signal(Signal::HUP);
    wait::until("the log is followed still", || (count() > before).then_some(()));
    follower.kill().expect("it runs");
    follower.wait().expect("its end");
    reader.join().expect("it read to the end");
}

#[test]
fn files_that_are_missing_or_wrong_are_named_at_the_start() {
    let secured = Secured::new();
    secured.make(&["cert", "create", "-client"]);
    let start = |block: &str| {
        secured.node.configure(block);
        let config = secured.node.write("start", "").with_file_name("agent.hcl");
        secured.node.drover(&["agent", "-config", path(&config)])
    };
    let block = secured.block("");
    for (found, instead, sentence) in [
        ("global-server-nomad.pem", "nope.pem", "nope.pem: no such file or directory"),
        ("global-server-nomad-key.pem", "global-client-nomad-key.pem", "is not the key of tls.cert_file"),
        ("global-server-nomad.pem", "nomad-agent-ca-key.pem", "it has no certificate"),
    ] {
        start(&block.replace(found, instead)).fails(1, sentence);
    }
    start(&secured.block("tls_cipher_suites = \"TLS_RSA_WITH_RC4_128_SHA\"")).fails(1, "is not offered");
    assert!(!secured.node.data_dir().exists(), "nothing is left behind");
}

#[test]
fn plain_http_beyond_the_loopback_needs_a_word() {
    let mut node = Node::new();
    let config = node.write("start", "").with_file_name("agent.hcl");
    node.configure("addresses { http = \"0.0.0.0\" }");
    let start = ["agent", "-config", path(&config)];
    let refused = node.drover(&start);
    for way_out in ["tls { http = true", "addresses { http = \"127.0.0.1\" }", "insecure_http = true"] {
        refused.fails(1, way_out);
    }
    node.spawn(&[&start[..], &["-insecure-http"]].concat());
    node.await_ready();
    assert!(node.printed().contains("the HTTP API is not encrypted at 0.0.0.0:"), "{}", node.printed());
}

#[test]
fn jobs_of_the_agents_own_command_line_run_over_https() {
    let mut secured = Secured::new();
    secured.make(&["cert", "create", "-cli"]);
    let block = secured.block("verify_https_client = true");
    let more = secured.node.write("tls.hcl", &block);
    let file = secured.node.write("web.json", &format!("{{\"Job\": {}}}", shell_job("web", "sleep 1000")));
    secured.node.start_dev(&["-config", path(&more), "-job", path(&file)]);
    let address = secured.address();
    let done = format!("==> HTTP API: {address}; Ctrl-C");
    wait::until("the job runs", || secured.node.printed().contains(&done).then_some(()));
}

/// Bytes of a unix socket go to the agent's port.
#[test]
fn an_agent_is_asked_through_a_unix_socket() {
    let node = Node::dev();
    node.run("web", "echo hello; sleep 1000");
    node.await_alloc("web", "running");
    let socket = node.data_dir().with_file_name("api.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let port = node.port;
    thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let agent = TcpStream::connect(("127.0.0.1", port)).expect("the agent");
            let (mut from, mut to) =
                (caller.try_clone().expect("a clone"), agent.try_clone().expect("a clone"));
            thread::spawn(move || pump(&mut from, &mut to));
            let (mut from, mut to) = (agent, caller);
            thread::spawn(move || {
                pump(&mut from, &mut to);
                let _gone = to.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    let address = format!("unix://{}", socket.display());
    let ask = |args: &[&str]| node.drover_with(args, &[("NOMAD_ADDR", &address)]);
    assert!(ask(&["job", "status", "web"]).exits(0).contains("running"));
    ask(&["alloc", "exec", "-job", "web", "sh", "-c", "exit 7"]).exits(7);
    assert!(ask(&["operator", "api", "-dryrun", "/v1/jobs"]).exits(0).contains("--unix-socket"));
    node.drover_with(&["job", "status"], &[("NOMAD_ADDR", "unix:///nope")]).fails(1, "There is no socket at");
}

fn pump(from: &mut impl Read, to: &mut impl Write) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut chunk) {
        if to.write_all(&chunk[..read]).is_err() {
            return;
        }
    }
}
