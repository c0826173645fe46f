//! Golden samples of the servers of a region, and of what they say while there is none yet.

use super::Samples;
use model::member::{Generation, RegionLevel, ServerAddress, ServerList, ServerMember, Suffrage};
use state::client_store::ShownState;
use state::samples::{founding, server_info};
use wire::command::{Command, MemberChange};
use wire::server_rpc::{Hello, ServerReply, ServerRequest};

pub fn members(s: &mut Samples) {
    generations(s);
    s.add("two", &founding(&[7, 300]));
    for (what, suffrage) in
        [("learner", Suffrage::Learner), ("voter", Suffrage::Voter), ("removed", Suffrage::Removed)]
    {
        let info = server_info("one");
        s.add(what, &ServerMember { id: 300, info, suffrage, create_index: 3, modify_index: 4 });
    }
    let (id, info) = (300, server_info("one"));
    for (what, change) in [
        ("add server", MemberChange::Add { id, info: info.clone() }),
        ("promote server", MemberChange::Promote { id }),
        ("remove server", MemberChange::Remove { id }),
        ("update server", MemberChange::Update { id, info: info.clone() }),
    ] {
        s.add(what, &Command::ChangeMember(Box::new(change)));
    }
    let hello = Hello { info: info.clone(), expect: 3, sees: vec![7, 300], founding: None };
    s.add("hello", &ServerRequest::Hello(Box::new(hello.clone())));
    let founded = Hello { founding: Some(founding(&[7, 300])), ..hello };
    s.add("hello of a region", &ServerRequest::Hello(Box::new(founded)));
    s.add("announce", &ServerRequest::Announce { id, info: Box::new(info) });
    s.add("removed", &ServerReply::Removed);
    s.add("too old", &ServerReply::TooOld { level: 2 });
    s.add("raise feature level", &Command::RaiseFeatureLevel { level: 1 });
    s.add("second", &RegionLevel { level: 2, modify_index: 9 });
}

fn generations(s: &mut Samples) {
    let generation = Generation { region_id: super::uuid(5), restores: 1 };
    s.add("followed", &ShownState { generation, index: 300 });
    s.add("known", &server_list());
}

pub fn server_list() -> ServerList {
    let servers = vec![ServerAddress { id: 300, rpc_addr: "10.0.0.1:4647".into() }];
    ServerList { index: 9, servers }
}
