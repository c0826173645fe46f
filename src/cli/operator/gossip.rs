//! `drover operator gossip keyring`: the key that the servers of a region share, under Nomad's name for it.
//!
//! Refuses to know: agents. A key is made here, and told to servers by their configuration.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::Session;
use ::io::entropy;
use argh::{ArgsInfo, FromArgs};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::process::ExitCode;

const KEY_BYTES: usize = 32;

/// make a key for the servers of a region: say it on each as server { encrypt = "..." }
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover operator gossip keyring generate")]
pub struct KeyringGenerateCommand {}

impl CliCommand for KeyringGenerateCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        session.out.line(&generate()?)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn generate() -> CommandResult<String> {
    let key = entropy::bytes::<KEY_BYTES>()
        .map_err(|e| CommandError::new(format!("the kernel gives no random numbers: {e}")))?;
    Ok(STANDARD.encode(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::config::{Config, FlagSetting, Sources, files};

    #[test]
    fn a_generated_key_is_new_and_a_server_takes_it() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, other);
        let flags = vec![FlagSetting { key: "server.encrypt", value: one.clone(), flag: "-encrypt" }];
        let sources = Sources { dev: true, files: Vec::new(), flags };
        let machine = files::machine();
        let config = Config::load(&sources, &machine).unwrap().config;
        let key = config.server.encrypt.unwrap();
        assert_eq!((key.bytes().len(), STANDARD.encode(key.bytes())), (KEY_BYTES, one));
    }
}
