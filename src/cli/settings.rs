//! Settings of every networked command: where the agent is, and as whom to speak. From flags, then `DROVER_*`, then `NOMAD_*`.
//!
//! Pure: the environment comes in as a function.

use base64::Engine as _;

const DEFAULT_ADDRESS: &str = "http://127.0.0.1:4646";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliSettings {
    /// `http://host:port` or `https://host:port`, without a slash at the end; or `unix:///path`.
    pub address: String,
    /// Empty: the agent's own.
    pub region: String,
    /// Empty: `default`.
    pub namespace: String,
    pub token: String,
    /// The value of an `Authorization` header.
    pub authorization: Option<String>,
    pub tls: TlsFlags,
    pub no_color: bool,
    pub force_color: bool,
}

/// Files and names for HTTPS: whom to trust, and what to show. Empty: nothing was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFlags {
    pub ca_cert: String,
    /// A folder.
    pub ca_path: String,
    pub client_cert: String,
    pub client_key: String,
    pub server_name: String,
    pub skip_verify: bool,
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
        let skip_verify =
            flag("tls-skip-verify").or_else(|| flag("insecure")).or_else(|| from_env("SKIP_VERIFY"));
        let skip_verify = skip_verify.map_or(Ok(false), |value| {
            go_bool(&value).ok_or_else(|| format!("NOMAD_SKIP_VERIFY is true or false, not {value:?}"))
        })?;
        let encode = |v: String| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(v));
        Ok(CliSettings {
            address: address(&text("address", "ADDR"))?,
            region: text("region", "REGION"),
            namespace: text("namespace", "NAMESPACE"),
            token: text("token", "TOKEN"),
            authorization: from_env("HTTP_AUTH").map(encode),
            tls: TlsFlags {
                ca_cert: text("ca-cert", "CACERT"),
                ca_path: text("ca-path", "CAPATH"),
                client_cert: text("client-cert", "CLIENT_CERT"),
                client_key: text("client-key", "CLIENT_KEY"),
                server_name: text("tls-server-name", "TLS_SERVER_NAME"),
                skip_verify,
            },
            no_color: switch("no-color", "CLI_NO_COLOR"),
            force_color: switch("force-color", "CLI_FORCE_COLOR"),
        })
    }
}

fn address(given: &str) -> Result<String, String> {
    if given.is_empty() {
        return Ok(DEFAULT_ADDRESS.to_string());
    }
    let wrong = || format!("{given:?} is no address: write it like {DEFAULT_ADDRESS}");
    let (scheme, host) = match given.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') && path.len() > 1 => return Ok(given.to_string()),
        Some(("unix", _)) => {
            return Err(format!("{given:?} is no address: write a unix socket like unix:///run/drover.sock"));
        }
        Some((scheme @ ("http" | "https"), host)) => (scheme, host),
        Some(_) => return Err(wrong()),
        None => ("http", given),
    };
    let host = host.trim_end_matches('/');
    if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c == '/') {
        return Err(wrong());
    }
    Ok(format!("{scheme}://{host}"))
}

/// As Go's `strconv.ParseBool` takes it.
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
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
    fn addresses_name_a_scheme_and_a_host_or_a_socket() {
        for address in ["unix://", "unix://run", "ftp://a", "http://", "https://", "http://a b"] {
            assert!(settings(&[("address", address)], &[]).is_err(), "{address}");
        }
        for (address, expected) in
            [("https://a:1/", "https://a:1"), ("unix:///run/x", "unix:///run/x"), ("a:1", "http://a:1")]
        {
            assert_eq!(settings(&[("address", address)], &[]).unwrap().address, expected);
        }
    }

    #[test]
    fn flags_and_variables_say_whom_to_trust() {
        let env = [
            ("NOMAD_CACERT", "/n"),
            ("DROVER_CACERT", "/d"),
            ("NOMAD_CAPATH", "/p"),
            ("NOMAD_CLIENT_CERT", "/c"),
            ("NOMAD_CLIENT_KEY", "/k"),
            ("NOMAD_TLS_SERVER_NAME", "s"),
            ("NOMAD_SKIP_VERIFY", "1"),
        ];
        let said = |ca: &str, name: &str, skip_verify| TlsFlags {
            ca_cert: ca.into(),
            ca_path: "/p".into(),
            client_cert: "/c".into(),
            client_key: "/k".into(),
            server_name: name.into(),
            skip_verify,
        };
        assert_eq!(settings(&[], &env).unwrap().tls, said("/d", "s", true));
        let flags = [("ca-cert", "/f"), ("tls-server-name", "t"), ("tls-skip-verify", "false")];
        assert_eq!(settings(&flags, &env).unwrap().tls, said("/f", "t", false));
        assert!(settings(&[("insecure", "true")], &[]).unwrap().tls.skip_verify);
        assert!(settings(&[], &[("NOMAD_SKIP_VERIFY", "perhaps")]).is_err());
    }
}
