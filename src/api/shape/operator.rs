//! The servers as a group as JSON (http-api.md 9.4, 9.5). A server alone is the whole group.

use super::MetaShape;
use crate::agent::AgentInfo;
use model::member::{ServerInfo, ServerMember, Suffrage};
use model::scheduling::SchedulerConfig;
use serde::Serialize;
use wire::status::ServerStatus;

/// `GET /v1/operator/scheduler/configuration`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SchedulerShape {
    scheduler_config: SettingsShape,
    #[serde(flatten)]
    meta: MetaShape,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SettingsShape {
    scheduler_algorithm: &'static str,
    preemption_config: PreemptionShape,
    memory_oversubscription_enabled: bool,
    reject_job_registration: bool,
    pause_eval_broker: bool,
    create_index: u64,
    modify_index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PreemptionShape {
    system_scheduler_enabled: bool,
    #[serde(rename = "SysBatchSchedulerEnabled")]
    sysbatch_scheduler_enabled: bool,
    batch_scheduler_enabled: bool,
    service_scheduler_enabled: bool,
}

impl SchedulerShape {
    pub fn new(config: &SchedulerConfig, known_leader: bool) -> SchedulerShape {
        let (said, preemption) = (config.settings, config.settings.preemption);
        let scheduler_config = SettingsShape {
            scheduler_algorithm: said.algorithm.as_str(),
            preemption_config: PreemptionShape {
                system_scheduler_enabled: preemption.system,
                sysbatch_scheduler_enabled: preemption.sysbatch,
                batch_scheduler_enabled: preemption.batch,
                service_scheduler_enabled: preemption.service,
            },
            memory_oversubscription_enabled: said.memory_oversubscription,
            reject_job_registration: said.reject_job_registration,
            pause_eval_broker: said.pause_eval_broker,
            create_index: config.create_index,
            modify_index: config.modify_index,
        };
        let index = config.modify_index.max(1);
        SchedulerShape { scheduler_config, meta: MetaShape::new(index, known_leader) }
    }
}

/// `PUT /v1/operator/scheduler/configuration`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SchedulerSetConfigShape {
    pub updated: bool,
    /// Left out when there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub warnings: String,
    pub index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RaftShape<'a> {
    servers: Vec<RaftServer<'a>>,
    index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RaftServer<'a> {
    #[serde(rename = "ID")]
    id: String,
    node: String,
    address: &'a str,
    leader: bool,
    voter: bool,
    raft_protocol: &'static str,
}

impl<'a> RaftShape<'a> {
    pub fn new(status: &'a ServerStatus) -> RaftShape<'a> {
        let server = |member: &'a ServerMember| RaftServer {
            id: member.id.to_string(),
            node: full_name(&member.info),
            address: &member.info.rpc_addr,
            leader: status.leader == Some(member.id),
            voter: member.suffrage == Suffrage::Voter,
            raft_protocol: "3",
        };
        RaftShape { servers: status.members.iter().map(server).collect(), index: status.applied_index }
    }
}

/// `PUT /v1/operator/raft/transfer-leadership`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TransferShape<'a> {
    from: ServerAddress<'a>,
    to: ServerAddress<'a>,
    /// The target led already.
    noop: bool,
    err: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ServerAddress<'a> {
    #[serde(rename = "ID")]
    id: String,
    address: &'a str,
}

impl<'a> TransferShape<'a> {
    /// From whom to whom.
    pub fn new(servers: &'a [ServerMember], (from, to): (Option<u64>, Option<u64>)) -> TransferShape<'a> {
        let server = |id: Option<u64>| ServerAddress {
            id: id.map(|id| id.to_string()).unwrap_or_default(),
            address: servers
                .iter()
                .find(|member| Some(member.id) == id)
                .map_or("", |member| &member.info.rpc_addr),
        };
        TransferShape { from: server(from), to: server(to), noop: from == to, err: None }
    }
}

/// As Nomad's servers call each other.
pub fn full_name(server: &ServerInfo) -> String {
    format!("{}.{}", server.name, server.region)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AutopilotShape<'a> {
    pub healthy: bool,
    failure_tolerance: usize,
    servers: Vec<ServerHealth<'a>>,
    /// Empty: nobody leads.
    leader: String,
    voters: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ServerHealth<'a> {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    address: &'a str,
    serf_status: &'static str,
    version: &'a str,
    leader: bool,
    last_contact: &'static str,
    last_term: u64,
    last_index: u64,
    healthy: bool,
    voter: bool,
    /// Not counted.
    stable_since: Option<String>,
}

impl<'a> AutopilotShape<'a> {
    /// As the answering server knows it, which is the leader if there is one.
    pub fn new(agent: &'a AgentInfo, status: &'a ServerStatus) -> AutopilotShape<'a> {
        let servers: Vec<ServerHealth<'a>> =
            status.members.iter().map(|member| ServerHealth::new(agent, status, member)).collect();
        let well = servers.iter().filter(|server| server.voter && server.healthy).count();
        let quorum = status.voters.len() / 2 + 1;
        AutopilotShape {
            healthy: status.leader.is_some() && servers.iter().all(|server| server.healthy),
            failure_tolerance: well.saturating_sub(quorum),
            servers,
            leader: status.leader.map(|id| id.to_string()).unwrap_or_default(),
            voters: status.voters.iter().map(u64::to_string).collect(),
        }
    }
}

impl<'a> ServerHealth<'a> {
    fn new(agent: &'a AgentInfo, status: &'a ServerStatus, member: &'a ServerMember) -> ServerHealth<'a> {
        let (id, info) = (member.id, &member.info);
        let is_own = id == status.id;
        let follower = status.followers.iter().find(|follower| follower.id == id);
        let is_reached = status.reaches(id);
        let is_well = match is_own {
            true => status.leader.is_some() && status.storage_fault.is_none(),
            false => is_reached && follower.is_none_or(|follower| !follower.is_behind),
        };
        ServerHealth {
            id: id.to_string(),
            name: full_name(info),
            address: &info.rpc_addr,
            serf_status: if is_reached { "alive" } else { "failed" },
            version: if is_own { &agent.compatible_version } else { &info.version },
            leader: status.leader == Some(id),
            last_contact: "0s",
            last_term: status.term,
            last_index: follower.map_or(status.applied_index, |follower| follower.matched_index),
            healthy: is_well,
            voter: status.voters.contains(&id),
            stable_since: None,
        }
    }
}
