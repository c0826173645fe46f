//! `drover agent`: configuration and job files are read and checked in full before anything starts.

use crate::CliCommand;
use crate::agent::jobs::run as run_jobs;
use crate::error::{CommandError, CommandResult};
use crate::job;
use crate::job::file::{JobFile, JobFileOptions};
use crate::numbers;
use crate::session::Session;
use agent::config::files;
use agent::config::{Config, FlagSetting, Loaded, LogLevel, Sources};
use argh::{ArgsInfo, FromArgs};
use std::io::IsTerminal;
use std::process::ExitCode;

/// run an agent: server and client in one process
#[derive(Clone, FromArgs, ArgsInfo)]
#[argh(
    example = "drover agent -dev -job hello.nomad.hcl",
    example = "drover agent -config /etc/drover.d -log-level INFO"
)]
pub struct AgentCommand {
    /// server and client on 127.0.0.1, state in a temporary directory, tasks end with the agent
    #[argh(switch)]
    dev: bool,
    /// a configuration file, or a folder with *.hcl and *.json; repeatable
    #[argh(option)]
    config: Vec<String>,
    /// a job file to run once the agent is up; repeatable
    #[argh(option)]
    job: Vec<String>,
    /// the IP address to listen on
    #[argh(option)]
    bind: Option<String>,
    /// plain HTTP on addresses that other machines reach: they can read and change what is said
    #[argh(switch)]
    insecure_http: bool,
    /// where state is kept: an absolute path
    #[argh(option)]
    data_dir: Option<String>,
    /// the region's name
    #[argh(option)]
    region: Option<String>,
    /// the datacenter's name
    #[argh(option)]
    dc: Option<String>,
    /// the name of this node
    #[argh(option)]
    node: Option<String>,
    /// TRACE, DEBUG, INFO, WARN, ERROR or OFF
    #[argh(option)]
    log_level: Option<String>,
    /// log one JSON object a line
    #[argh(switch)]
    log_json: bool,
    /// name the place in the source with each log line
    #[argh(switch)]
    log_include_location: bool,
    /// be a server
    #[argh(switch)]
    server: bool,
    /// be a client
    #[argh(switch)]
    client: bool,
    /// number of servers that the region is bootstrapped with: at most 16
    #[argh(option, from_str_fn(numbers::count))]
    bootstrap_expect: Option<u32>,
    /// the key that the servers of the region share; in a configuration file others of this machine do not see it
    #[argh(option, arg_name = "key")]
    encrypt: Option<String>,
    /// a server to ask once, at the start, for a place in its region; repeatable
    #[argh(option, arg_name = "address")]
    join: Vec<String>,
    /// a server to ask again and again for a place in its region; repeatable
    #[argh(option, arg_name = "address")]
    retry_join: Vec<String>,
    /// rounds without an answer after which a server without a region gives up; 0: never
    #[argh(option, from_str_fn(numbers::count))]
    retry_max: Option<u32>,
    /// how long after one round the next begins
    #[argh(option, arg_name = "duration")]
    retry_interval: Option<String>,
    /// the servers that a client asks, with commas between them
    #[argh(option, arg_name = "addresses")]
    servers: Option<String>,
    /// the node's class
    #[argh(option)]
    node_class: Option<String>,
    /// the node's pool
    #[argh(option)]
    node_pool: Option<String>,
    /// metadata of the node as key=value; repeatable
    #[argh(option)]
    meta: Vec<String>,
    /// the interface whose address tasks are told
    #[argh(option)]
    network_interface: Option<String>,
    /// where the client keeps its state: an absolute path
    #[argh(option)]
    state_dir: Option<String>,
    /// where tasks have their directories: an absolute path
    #[argh(option)]
    alloc_dir: Option<String>,
    /// a variable for the files of -job as name=value; repeatable
    #[argh(option)]
    var: Vec<String>,
    /// a file with variables for the files of -job; repeatable
    #[argh(option)]
    var_file: Vec<String>,
}

impl CliCommand for AgentCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let mut loaded = self.load()?;
        for warning in &loaded.warnings {
            session.out.warning(warning);
        }
        let jobs = self.jobs(session)?;
        if !jobs.is_empty() && !self.tells_log_level() && std::io::stderr().is_terminal() {
            // the progress of the jobs is what the terminal is for
            loaded.config.log.level = LogLevel::Warn;
        }
        session.out.text(&agent::config::banner(&loaded.config, env!("CARGO_PKG_VERSION"), None))?;
        let again = self.clone();
        let read = Box::new(move || again.load().map_err(|failure| failure.to_string()));
        Ok(agent::run(loaded, read, move |started| run_jobs(&started, &jobs)))
    }
}

impl AgentCommand {
    fn load(&self) -> CommandResult<Loaded> {
        let mut sources = Sources { dev: self.dev, files: Vec::new(), flags: self.flags() };
        for path in &self.config {
            sources.files.extend(files::read(path).map_err(|d| CommandError::new(d.to_string()))?);
        }
        Config::load(&sources, &files::machine()).map_err(|problems| {
            let shown = jobspec::render(&problems);
            CommandError::usage(format!("Error loading the configuration:\n{}", shown.trim_end()))
        })
    }

    /// The level was chosen by a flag or a file.
    fn tells_log_level(&self) -> bool {
        self.log_level.is_some() || !self.config.is_empty()
    }

    fn jobs(&self, session: &Session) -> CommandResult<Vec<JobFile>> {
        if self.job.is_empty() && !(self.var.is_empty() && self.var_file.is_empty()) {
            return Err(CommandError::usage(
                "-var and -var-file are for the files of -job, and there is none",
            ));
        }
        let mut jobs = Vec::new();
        for path in &self.job {
            let options = JobFileOptions {
                json: path.ends_with(".json"),
                vars: self.var.clone(),
                var_files: self.var_file.clone(),
                strict: true,
            };
            let file = job::file::read(path, &options)?;
            file.warnings.iter().for_each(|w| session.out.warning(w));
            jobs.push(file);
        }
        Ok(jobs)
    }

    /// What the flags say, by the names of configuration keys.
    fn flags(&self) -> Vec<FlagSetting> {
        let on = |value: bool| value.then(|| "true".to_string());
        let expect = self.bootstrap_expect.map(|n| n.to_string());
        let retry_max = self.retry_max.map(|n| n.to_string());
        let single = [
            ("bind_addr", "-bind", self.bind.clone()),
            ("insecure_http", "-insecure-http", on(self.insecure_http)),
            ("data_dir", "-data-dir", self.data_dir.clone()),
            ("region", "-region", self.region.clone()),
            ("datacenter", "-dc", self.dc.clone()),
            ("name", "-node", self.node.clone()),
            ("log_level", "-log-level", self.log_level.clone()),
            ("log_json", "-log-json", on(self.log_json)),
            ("log_include_location", "-log-include-location", on(self.log_include_location)),
            ("server.enabled", "-server", on(self.server)),
            ("server.bootstrap_expect", "-bootstrap-expect", expect),
            ("server.encrypt", "-encrypt", self.encrypt.clone()),
            ("server.server_join.retry_max", "-retry-max", retry_max),
            ("server.server_join.retry_interval", "-retry-interval", self.retry_interval.clone()),
            ("client.enabled", "-client", on(self.client)),
            ("client.node_class", "-node-class", self.node_class.clone()),
            ("client.node_pool", "-node-pool", self.node_pool.clone()),
            ("client.network_interface", "-network-interface", self.network_interface.clone()),
            ("client.state_dir", "-state-dir", self.state_dir.clone()),
            ("client.alloc_dir", "-alloc-dir", self.alloc_dir.clone()),
        ];
        let given =
            single.into_iter().filter_map(|(key, flag, v)| v.map(|value| FlagSetting { key, value, flag }));
        let servers: Vec<String> =
            self.servers.iter().flat_map(|all| all.split(',')).map(str::to_string).collect();
        let repeated = [
            ("client.meta", "-meta", &self.meta),
            ("server.server_join.start_join", "-join", &self.join),
            ("server.server_join.retry_join", "-retry-join", &self.retry_join),
            ("client.servers", "-servers", &servers),
        ];
        let listed = repeated.into_iter().flat_map(|(key, flag, values)| {
            values.iter().map(move |value| FlagSetting { key, value: value.clone(), flag })
        });
        given.chain(listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Vec<(&'static str, String)> {
        let args: Vec<&str> = line.split(' ').collect();
        let command = AgentCommand::from_args(&["agent"], &args).unwrap();
        command.flags().into_iter().map(|set| (set.key, set.value)).collect()
    }

    #[test]
    fn flags_of_a_region_set_the_keys_of_their_names() {
        let line = "--bootstrap-expect 3 --encrypt k --join a --join b:1 --retry-join c --retry-join d \
                    --retry-max 5 --retry-interval 7s --servers e,f:2";
        for (key, values) in [
            ("server.bootstrap_expect", &["3"][..]),
            ("server.encrypt", &["k"]),
            ("server.server_join.start_join", &["a", "b:1"]),
            ("server.server_join.retry_join", &["c", "d"]),
            ("server.server_join.retry_max", &["5"]),
            ("server.server_join.retry_interval", &["7s"]),
            ("client.servers", &["e", "f:2"]),
        ] {
            let found: Vec<String> =
                settings(line).into_iter().filter(|(name, _)| *name == key).map(|(_, value)| value).collect();
            assert_eq!(found, values, "{key}");
        }
    }
}
