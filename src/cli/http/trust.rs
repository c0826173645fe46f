//! HTTPS for the client: the files that flags and variables name, read when they are first needed, and sentences for what goes wrong.
//!
//! Refuses to know: requests.

use crate::settings::TlsFlags;
use ::io::tls::{ClientTrust, TlsClient, TlsClientOptions, TlsFailure};
use agent::config::files::os_error;
use std::fs;
use std::sync::OnceLock;

/// A folder with more files than this is surely the wrong one.
const MAX_FILES: usize = 10_000;

/// Built with the first HTTPS request: other commands read no file.
#[derive(Debug)]
pub struct Trust {
    flags: TlsFlags,
    built: OnceLock<Result<TlsClient, String>>,
}

impl Trust {
    pub fn new(flags: TlsFlags) -> Trust {
        Trust { flags, built: OnceLock::new() }
    }

    pub fn flags(&self) -> &TlsFlags {
        &self.flags
    }

    /// `Err` is a sentence for the user.
    pub fn client(&self) -> Result<&TlsClient, String> {
        self.built.get_or_init(|| self.build()).as_ref().map_err(Clone::clone)
    }

    fn build(&self) -> Result<TlsClient, String> {
        let flags = &self.flags;
        let own = match (flags.client_cert.is_empty(), flags.client_key.is_empty()) {
            (true, true) => None,
            (false, false) => {
                Some((read("-client-cert", &flags.client_cert)?, read("-client-key", &flags.client_key)?))
            }
            _ => return Err("-client-cert and -client-key go together: name both".to_string()),
        };
        let options = TlsClientOptions {
            trust: self.authorities()?,
            own,
            server_name: Some(flags.server_name.clone()).filter(|name| !name.is_empty()),
        };
        TlsClient::new(&options).map_err(|why| match &options.trust {
            ClientTrust::Machine => format!("Nobody can be trusted: {why}. Name an authority with -ca-cert"),
            _ => format!("HTTPS cannot be spoken with {}: {why}", named(flags)),
        })
    }

    fn authorities(&self) -> Result<ClientTrust, String> {
        let flags = &self.flags;
        Ok(if flags.skip_verify {
            ClientTrust::Anybody
        } else if !flags.ca_cert.is_empty() {
            ClientTrust::Authorities(read("-ca-cert", &flags.ca_cert)?)
        } else if !flags.ca_path.is_empty() {
            ClientTrust::Authorities(folder(&flags.ca_path)?)
        } else {
            ClientTrust::Machine
        })
    }
}

/// The files that were named, for a message.
fn named(flags: &TlsFlags) -> String {
    let files = [&flags.ca_cert, &flags.ca_path, &flags.client_cert, &flags.client_key];
    let named: Vec<&str> = files.into_iter().filter(|file| !file.is_empty()).map(String::as_str).collect();
    named.join(", ")
}

fn read(flag: &str, file: &str) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|e| format!("{flag} {file}: {}", os_error(&e)))
}

/// All files of the folder, one after the other.
fn folder(path: &str) -> Result<Vec<u8>, String> {
    let unreadable = |e: std::io::Error| format!("-ca-path {path}: {}", os_error(&e));
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)?.take(MAX_FILES) {
        let file = entry.map_err(unreadable)?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend(fs::read(file).map_err(unreadable)?);
        all.push(b'\n');
    }
    Ok(all)
}

/// Why the agent at `address` was not asked over HTTPS, and what to do.
pub fn sentence(failure: &TlsFailure, address: &str) -> String {
    match failure {
        TlsFailure::UnknownAuthority => format!(
            "The agent at {address} shows a certificate of an authority that is not known here. Name the authority's certificate \
             with -ca-cert or DROVER_CACERT; -tls-skip-verify takes any certificate, whoever shows it"
        ),
        TlsFailure::OtherName(names) => {
            let has =
                if names.is_empty() { String::new() } else { format!(" (it is for {})", names.join(", ")) };
            format!(
                "The certificate of the agent at {address} is for another name{has}. Ask by a name that it has, or say the name \
                 that is expected with -tls-server-name or DROVER_TLS_SERVER_NAME"
            )
        }
        TlsFailure::Expired => format!(
            "The certificate of the agent at {address} has expired: renew it, and reload the agent. If it has not, this machine's \
             clock is wrong"
        ),
        TlsFailure::NotValidYet => format!(
            "The certificate of the agent at {address} is not valid yet: is this machine's clock right?"
        ),
        TlsFailure::CertificateWanted => format!(
            "The agent at {address} wants to see a certificate: name one with -client-cert and -client-key, or \
             DROVER_CLIENT_CERT and DROVER_CLIENT_KEY"
        ),
        TlsFailure::CertificateRefused => format!(
            "The agent at {address} does not take the certificate that it was shown: it has to be of the authority that the agent \
             knows (tls.ca_file), and valid now"
        ),
        TlsFailure::NoTls => format!("The agent at {address} does not speak HTTPS: ask it with http://"),
        TlsFailure::Other(why) => format!("No HTTPS with the agent at {address}: {why}"),
    }
}
