//! `drover tls ca create`: an authority for the certificates of agents and of those who ask them.
//!
//! Refuses to know: where the certificates will be used.

use super::files;
use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::Session;
use ::io::tls::{SubjectName, new_authority};
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// make a certificate authority: two files in this folder, <domain>-agent-ca.pem and <domain>-agent-ca-key.pem
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover tls ca create",
    note = "Whoever has the key can make certificates that agents take: keep it on a machine of its own, or offline."
)]
pub struct TlsCaCreateCommand {
    /// the domain that certificates are for: nomad
    #[argh(option, default = "String::from(\"nomad\")")]
    domain: String,
    /// how long it is valid: 1825
    #[argh(option, default = "1825", from_str_fn(files::days))]
    days: u32,
    /// the authority can speak for -domain, -additional-domain and localhost alone
    #[argh(switch)]
    name_constraint: bool,
    /// a further domain for -name-constraint; repeatable
    #[argh(option)]
    additional_domain: Vec<String>,
    /// the authority's name: "drover Agent CA"
    #[argh(option, default = "String::from(\"drover Agent CA\")")]
    common_name: String,
    /// two letters
    #[argh(option, default = "String::new()")]
    country: String,
    /// part of the authority's name
    #[argh(option, default = "String::new()")]
    postal_code: String,
    /// part of the authority's name
    #[argh(option, default = "String::new()")]
    province: String,
    /// part of the authority's name
    #[argh(option, default = "String::new()")]
    locality: String,
    /// part of the authority's name
    #[argh(option, default = "String::new()")]
    street_address: String,
    /// part of the authority's name: drover
    #[argh(option, default = "String::from(\"drover\")")]
    organization: String,
    /// part of the authority's name
    #[argh(option, default = "String::new()")]
    organizational_unit: String,
}

impl CliCommand for TlsCaCreateCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        files::host_name("-domain", &self.domain)?;
        for domain in &self.additional_domain {
            files::host_name("-additional-domain", domain)?;
        }
        if !self.additional_domain.is_empty() && !self.name_constraint {
            return Err(CommandError::usage("-additional-domain is for -name-constraint"));
        }
        let is_country = self.country.len() == 2 && self.country.bytes().all(|b| b.is_ascii_alphabetic());
        if !self.country.is_empty() && !is_country {
            return Err(CommandError::usage(format!("-country is two letters, not {:?}", self.country)));
        }
        let certificate = format!("{}-agent-ca.pem", self.domain);
        let key = format!("{}-agent-ca-key.pem", self.domain);
        files::check_free([&certificate, &key])?;
        let pair = new_authority(&self.subject(), self.days, &self.only_names(), files::now()?)
            .map_err(CommandError::new)?;
        files::write(&pair, &certificate, &key)?;
        session.out.line(&format!("==> CA certificate saved to: {certificate}"))?;
        session.out.line(&format!("==> CA certificate key saved to: {key}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl TlsCaCreateCommand {
    fn subject(&self) -> SubjectName {
        SubjectName {
            country: self.country.to_ascii_uppercase(),
            postal_code: self.postal_code.clone(),
            province: self.province.clone(),
            locality: self.locality.clone(),
            street_address: self.street_address.clone(),
            organization: self.organization.clone(),
            organizational_unit: self.organizational_unit.clone(),
            common_name: self.common_name.clone(),
        }
    }

    /// Every certificate of an agent has localhost.
    fn only_names(&self) -> Vec<String> {
        if !self.name_constraint {
            return Vec::new();
        }
        let own = [self.domain.clone(), "localhost".to_string()];
        own.into_iter().chain(self.additional_domain.iter().cloned()).collect()
    }
}
