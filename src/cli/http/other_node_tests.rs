//! A node's own agent that speaks HTTPS is asked so, after an agent without a path to it.

use super::*;
use crate::settings::TlsFlags;
use ::io::tls::{
    Authority, CertificateUsage, NewCertificate, SubjectName, TlsServer, TlsServerOptions, new_authority,
};
use smol::io::{AsyncReadExt, AsyncWriteExt};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An authority in a file, and a server with a certificate of it that has this name alone.
fn server_named(name: &str) -> (PathBuf, TlsServer) {
    let now: Duration = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let made = new_authority(&SubjectName::default(), 1, &[], now).unwrap();
    let authority =
        Authority::read(made.certificate.as_bytes(), made.key.as_bytes()).map_err(|e| e.1).unwrap();
    let wanted = NewCertificate {
        subject: SubjectName::default(),
        dns_names: vec![name.into()],
        ip_addresses: vec![],
        usage: CertificateUsage::Agent,
        days: 1,
    };
    let pair = authority.sign(&wanted, now).unwrap();
    let file = std::env::temp_dir().join(format!("drover-cli-{}-{name}.pem", std::process::id()));
    fs::write(&file, made.certificate).unwrap();
    let options = TlsServerOptions {
        certificate: pair.certificate.into(),
        key: pair.key.into(),
        ..TlsServerOptions::default()
    };
    (file, TlsServer::new(&options).unwrap())
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Answers each of these paths once, in this order.
fn answer_in_turn(listener: TcpListener, answers: Vec<(&'static str, String)>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for (path, answer) in answers {
            let (mut socket, _) = listener.accept().unwrap();
            let mut said = vec![];
            while !said.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                said.push(byte[0]);
            }
            let said = String::from_utf8(said).unwrap();
            assert!(said.starts_with(&format!("GET {path}")), "{path}: {said}");
            socket.write_all(answer.as_bytes()).unwrap();
        }
    })
}

/// What comes of asking for figures of the node whose agent has a certificate with this name.
fn asked_of_node(name: &str) -> Result<Value, String> {
    let (ca_cert, server) = server_named(name);
    let node = TcpListener::bind("127.0.0.1:0").unwrap();
    let described = format!("{{\"HTTPAddr\": \"{}\", \"TLSEnabled\": true}}", node.local_addr().unwrap());
    let agent = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = CliSettings {
        address: format!("http://{}", agent.local_addr().unwrap()),
        tls: TlsFlags { ca_cert: ca_cert.display().to_string(), ..TlsFlags::default() },
        ..CliSettings::default()
    };
    let agent = answer_in_turn(
        agent,
        vec![
            ("/v1/client/stats", answer("404 Not Found", "No path to node")),
            ("/v1/node/n1", answer("200 OK", &described)),
            ("/v1/agent/self", answer("200 OK", "{\"config\": {\"Region\": \"eu\"}}")),
        ],
    );
    let node = thread::spawn(move || {
        smol::block_on(async {
            node.set_nonblocking(true).unwrap();
            let node = smol::net::TcpListener::try_from(node).unwrap();
            let (socket, _) = node.accept().await.unwrap();
            let Ok(mut stream) = server.accept(socket).await else { return };
            let mut said = [0; 16];
            stream.read_exact(&mut said).await.unwrap();
            assert_eq!(&said, b"GET /v1/client/s");
            stream.write_all(answer("200 OK", "7").as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            // read to the end, so that nothing is reset
            let _end = stream.read_to_end(&mut vec![]).await;
        });
    });
    let client = HttpClient::new(&settings);
    let came = client.get_value("/v1/client/stats", &[("node_id", "n1")]);
    let came = came.map_err(|e| CommandError::from(e).to_string());
    drop(client);
    agent.join().unwrap();
    node.join().unwrap();
    fs::remove_file(ca_cert).unwrap();
    came
}

#[test]
fn a_nodes_own_agent_is_asked_over_https() {
    for name in ["client.eu.nomad", "server.eu.nomad"] {
        assert_eq!(asked_of_node(name), Ok(Value::from(7)), "{name}");
    }
    let refused = asked_of_node("client.us.nomad").unwrap_err();
    assert!(refused.contains("another name (it is for client.us.nomad)"), "{refused}");
}
