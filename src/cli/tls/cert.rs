//! `drover tls cert create`: a certificate of an authority that `tls ca create`, or somebody else, has made.
//!
//! Refuses to know: where the certificate will be used.

use super::files;
use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::Session;
use ::io::tls::{Authority, CertificateUsage, NewCertificate, SubjectName};
use agent::config::files::os_error;
use argh::{ArgsInfo, FromArgs};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

/// make a certificate: two files in this folder, <region>-<server|client|cli>-<domain>.pem and the same with -key
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover tls cert create -server -additional-ipaddress 10.0.0.1",
    example = "drover tls cert create -cli",
    note = "Certificates of -server and -client are for agents, which are asked by a name or an address that stands in them: \
            <server|client>.<region>.<domain>, localhost and 127.0.0.1 always do."
)]
pub struct TlsCertCreateCommand {
    /// for an agent that is a server
    #[argh(switch)]
    server: bool,
    /// for an agent that is a client alone
    #[argh(switch)]
    client: bool,
    /// for a command line, to be shown to agents with verify_https_client
    #[argh(switch)]
    cli: bool,
    /// a further name of the host; repeatable
    #[argh(option)]
    additional_dnsname: Vec<String>,
    /// a further IP address; repeatable
    #[argh(option)]
    additional_ipaddress: Vec<String>,
    /// the authority's certificate: <domain>-agent-ca.pem
    #[argh(option)]
    ca: Option<String>,
    /// the authority's key: <domain>-agent-ca-key.pem
    #[argh(option)]
    key: Option<String>,
    /// the region: global
    #[argh(option)]
    cluster_region: Option<String>,
    /// the same
    #[argh(option)]
    region: Option<String>,
    /// how long it is valid: 365
    #[argh(option, default = "365", from_str_fn(files::days))]
    days: u32,
    /// the domain: nomad
    #[argh(option, default = "String::from(\"nomad\")")]
    domain: String,
}

impl CliCommand for TlsCertCreateCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (role, shown) = self.role()?;
        let region = self.cluster_region.as_ref().or(self.region.as_ref()).map_or("global", String::as_str);
        files::host_name("-domain", &self.domain)?;
        files::host_name("-cluster-region", region)?;
        let certificate = format!("{region}-{role}-{}.pem", self.domain);
        let key = format!("{region}-{role}-{}-key.pem", self.domain);
        files::check_free([&certificate, &key])?;
        let wanted = self.wanted(role, &format!("{role}.{region}.{}", self.domain))?;
        let pair = self.authority()?.sign(&wanted, files::now()?).map_err(CommandError::new)?;
        files::write(&pair, &certificate, &key)?;
        session.out.line(&format!("==> {shown} Certificate saved to {certificate}"))?;
        session.out.line(&format!("==> {shown} Certificate key saved to {key}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl TlsCertCreateCommand {
    /// As it stands in names, and as it is shown.
    fn role(&self) -> CommandResult<(&'static str, &'static str)> {
        match (self.server, self.client, self.cli) {
            (true, false, false) => Ok(("server", "Server")),
            (false, true, false) => Ok(("client", "Client")),
            (false, false, true) => Ok(("cli", "Cli")),
            _ => Err(CommandError::usage("Please provide exactly one of -server, -client and -cli")),
        }
    }

    fn wanted(&self, role: &str, name: &str) -> CommandResult<NewCertificate> {
        for dns_name in &self.additional_dnsname {
            files::host_name("-additional-dnsname", dns_name.trim_start_matches("*."))?;
        }
        let usage = if role == "cli" { CertificateUsage::Caller } else { CertificateUsage::Agent };
        let mut dns_names = vec![name.to_string()];
        let mut ip_addresses = Vec::new();
        if usage == CertificateUsage::Agent {
            dns_names.push("localhost".to_string());
            ip_addresses.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        for text in &self.additional_ipaddress {
            let wrong = || CommandError::usage(format!("-additional-ipaddress {text:?} is no IP address"));
            ip_addresses.push(text.parse().map_err(|_| wrong())?);
        }
        for dns_name in &self.additional_dnsname {
            if !dns_names.contains(dns_name) {
                dns_names.push(dns_name.clone());
            }
        }
        ip_addresses.sort();
        ip_addresses.dedup();
        let subject = SubjectName { common_name: name.to_string(), ..SubjectName::default() };
        Ok(NewCertificate { subject, dns_names, ip_addresses, usage, days: self.days })
    }

    fn authority(&self) -> CommandResult<Authority> {
        let ca = self.ca.clone().unwrap_or_else(|| format!("{}-agent-ca.pem", self.domain));
        let key = self.key.clone().unwrap_or_else(|| format!("{}-agent-ca-key.pem", self.domain));
        let read = |flag: &str, file: &str| {
            fs::read(file).map_err(|e| {
                CommandError::new(format!(
                    "{flag} {file}: {}: `drover tls ca create` makes an authority",
                    os_error(&e)
                ))
            })
        };
        Authority::read(&read("-ca", &ca)?, &read("-key", &key)?).map_err(|(what, why)| {
            let (flag, file) = if what == "key" { ("-key", &key) } else { ("-ca", &ca) };
            CommandError::new(format!("{flag} {file}: {why}"))
        })
    }
}
