//! Settings of every networked command: where the agent is, and as whom to speak. From flags, then `DROVER_*`, then `NOMAD_*`.
//!
//! Pure: the environment comes in as a function.

use base64::Engine as _;

const DEFAULT_ADDRESS: &str = "http://127.0.0.1:4646";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliSettings {
    /// `http://host:port`, without a slash at the end.
    pub address: String,
    /// Empty: the agent's own.
    pub region: String,
    /// Empty: `default`.
    pub namespace: String,
    pub token: String,
    /// The value of an `Authorization` header.
    pub authorization: Option<String>,
    pub no_color: bool,
    pub force_color: bool,
}

impl CliSettings {
    /// `Err` is a sentence for the user.
    pub fn new(
        flags: &[(&'static str, String)],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<CliSettings, String> {
        let from_env = |name: &str| {
            let own = env(&format!("DROVER_{name}")).filter(|v| !v.is_empty());
            own.or_else(|| env(&format!("NOMAD_{name}"))).filter(|v| !v.is_empty())
        };
        let flag = |name: &str| flags.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| value.clone());
        let text = |name: &str, variable: &str| flag(name).or_else(|| from_env(variable)).unwrap_or_default();
        let switch = |name: &str, variable: &str| match flag(name) {
            Some(value) => value == "true",
            None => from_env(variable).is_some(),
        };
        for name in ["CACERT", "CAPATH", "CLIENT_CERT", "CLIENT_KEY", "TLS_SERVER_NAME", "SKIP_VERIFY"] {
            if from_env(name).is_some_and(|v| !matches!(v.as_str(), "0" | "false")) {
                return Err(format!("not supported yet: NOMAD_{name} (TLS): unset it"));
            }
        }
        let encode = |v: String| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(v));
        Ok(CliSettings {
            address: address(&text("address", "ADDR"))?,
            region: text("region", "REGION"),
            namespace: text("namespace", "NAMESPACE"),
            token: text("token", "TOKEN"),
            authorization: from_env("HTTP_AUTH").map(encode),
            no_color: switch("no-color", "CLI_NO_COLOR"),
            force_color: switch("force-color", "CLI_FORCE_COLOR"),
        })
    }
}

fn address(given: &str) -> Result<String, String> {
    if given.is_empty() {
        return Ok(DEFAULT_ADDRESS.to_string());
    }
    if given.starts_with("https:") {
        return Err(format!("not supported yet: TLS in the address {given:?}; use http://"));
    }
    if given.starts_with("unix:") {
        return Err(format!("not supported yet: unix sockets as in the address {given:?}; use http://"));
    }
    let host = match given.split_once("://") {
        Some(("http", host)) => host,
        Some(_) => return Err(format!("{given:?} is no address: write it like {DEFAULT_ADDRESS}")),
        None => given,
    };
    let host = host.trim_end_matches('/');
    if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c == '/') {
        return Err(format!("{given:?} is no address: write it like {DEFAULT_ADDRESS}"));
    }
    Ok(format!("http://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> Result<CliSettings, String> {
        let flags: Vec<_> = flags.iter().map(|(n, v)| (*n, v.to_string())).collect();
        let env: Vec<_> = env.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        CliSettings::new(&flags, &|name| env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
    }

    #[test]
    fn flags_win_over_drovers_environment_over_nomads() {
        let both = [("NOMAD_ADDR", "http://n:1"), ("DROVER_ADDR", "http://d:2")];
        for (flags, env, expected) in [
            (&[][..], &[][..], DEFAULT_ADDRESS),
            (&[], &both[..1], "http://n:1"),
            (&[], &both[..], "http://d:2"),
            (&[("address", "http://f:3/")], &both[..], "http://f:3"),
            (&[("address", "f:3"), ("address", "g:4")], &[], "http://g:4"),
        ] {
            assert_eq!(settings(flags, env).unwrap().address, expected);
        }
        let s =
            settings(&[], &[("NOMAD_REGION", "r"), ("NOMAD_NAMESPACE", "n"), ("DROVER_TOKEN", "t")]).unwrap();
        assert_eq!((s.region.as_str(), s.namespace.as_str(), s.token.as_str()), ("r", "n", "t"));
        let s = settings(&[], &[("NOMAD_HTTP_AUTH", "u:p"), ("NOMAD_CLI_NO_COLOR", "1")]).unwrap();
        assert_eq!((s.authorization.as_deref(), s.no_color), (Some("Basic dTpw"), true));
    }

    #[test]
    fn addresses_with_tls_or_a_socket_are_refused() {
        for address in ["https://a:1", "unix:///run/x", "ftp://a", "http://", "http://a b"] {
            assert!(settings(&[("address", address)], &[]).is_err(), "{address}");
        }
        assert!(settings(&[], &[("NOMAD_CACERT", "/x")]).is_err());
        assert!(settings(&[], &[("NOMAD_SKIP_VERIFY", "false")]).is_ok());
    }
}
