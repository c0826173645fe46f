//! HTTP requests on their way through any agent of a region: passed on by a node, waiting for a leader, confirmed, forwarded,
//! carried out by the leader, answered. What the agent's service does with sockets, for several machines.
//!
//! Refuses to know: who asks, and what the answers mean. Invariant: each request has one outcome.

use super::api_requests::unknown;
use super::faults::Kind;
use super::place::{Machine, ServerAt};
use super::world::{Event, World};
use api::response::Response;
use api::{RouteOutcome, Wait, WaitState, WriteResponder};
use model::time::Span;
use server::effects::Input;
use std::collections::BTreeMap;
use wire::http::{ForwardFailure, ForwardedResponse, Request};
use wire::request::{Refusal, WriteReply};

/// HTTP calls have numbers apart from those of others' questions.
const FIRST_CALL: u64 = 1 << 42;

/// How often a waiting query looks whether anything has moved.
const LOOKS_EVERY: Span = Span::millis(500);

/// What became of a request, as far as its caller knows.
#[derive(Debug)]
pub enum Outcome {
    Answered(Response),
    /// Nobody knows.
    Unknown,
}

struct Call {
    at: Machine,
    request: Request,
    /// What a server or a node has passed on; `None`: a user asks.
    serving: Option<Serving>,
    step: Step,
}

/// What a server serves for others.
#[derive(Clone, Copy)]
struct Serving {
    at: ServerAt,
    number: u64,
    leader_only: bool,
}

/// What the call waits for.
enum Step {
    Waiting(WaitState),
    Confirming(Wait),
    Forwarded(Wait),
    Writing(WriteResponder),
    /// Nothing any more: the agent that it came to has ended. Who runs there next has never heard of it.
    Lost,
}

#[derive(Default)]
pub struct HttpCalls {
    calls: BTreeMap<u64, Call>,
    count: u64,
}

impl World {
    /// A user asks that agent. Its outcome is told to `Clients`.
    pub fn call(&mut self, at: Machine, request: Request) -> u64 {
        self.begin_call(at, request, None)
    }

    /// Another server's or a node's user asks.
    pub fn serve_call(&mut self, at: ServerAt, number: u64, request: Request, leader_only: bool) {
        self.begin_call(Machine::Server(at), request, Some(Serving { at, number, leader_only }));
    }

    fn begin_call(&mut self, at: Machine, request: Request, serving: Option<Serving>) -> u64 {
        self.http_calls.count += 1;
        let id = FIRST_CALL + self.http_calls.count;
        let step = Step::Waiting(WaitState::default());
        self.http_calls.calls.insert(id, Call { at, request, serving, step });
        self.after(Span(10_000), Event::Call { id });
        id
    }

    /// The call goes on.
    pub fn go_on(&mut self, id: u64) -> Result<(), String> {
        let Some(call) = self.http_calls.calls.get(&id) else { return Ok(()) };
        let state = match call.step {
            Step::Waiting(state) => state,
            Step::Lost => return self.end_call(id, Outcome::Unknown),
            _ => return Ok(()),
        };
        let (at, serving, request) = (call.at, call.serving, call.request.clone());
        let Some(outcome) = self.route(at, &request, state) else {
            return self.end_call(id, Outcome::Unknown);
        };
        let request = Box::new(request);
        match (at, outcome) {
            (_, RouteOutcome::Respond(response)) => return self.end_call(id, Outcome::Answered(response)),
            (_, RouteOutcome::Wait(wait)) => self.wait_for(id, wait),
            (Machine::Server(at), RouteOutcome::ConfirmRead(wait)) => {
                self.set_step(id, Step::Confirming(wait));
                self.server_input(at, Input::Read { token: id });
            }
            (_, RouteOutcome::Forward(_)) if serving.is_some_and(|serving| serving.leader_only) => {
                return self.end_call(id, Outcome::Unknown);
            }
            (Machine::Server(at), RouteOutcome::Forward(wait)) => {
                self.set_step(id, Step::Forwarded(wait));
                self.server_input(at, Input::Forward { token: id, request });
            }
            (Machine::Node(at), RouteOutcome::ForwardToServer { hold, otherwise }) => {
                self.set_step(id, Step::Forwarded(otherwise));
                self.node_input(at, client::effects::Input::Forward { token: id, hold, request });
            }
            (Machine::Server(at), RouteOutcome::Write(action, responder)) => {
                self.set_step(id, Step::Writing(responder));
                self.server_input(at, Input::Request { token: id, action });
            }
            _ => return Err(format!("{} {} is no request of these users", request.path, request.query)),
        }
        Ok(())
    }

    fn set_step(&mut self, id: u64, step: Step) {
        if let Some(call) = self.http_calls.calls.get_mut(&id) {
            call.step = step;
        }
    }

    fn wait_for(&mut self, id: u64, wait: Wait) {
        let mut left = wait.wake_at.since(self.now).max(Span(10_000));
        if !wait.keys.is_empty() {
            // what it waits for may have moved
            left = left.min(LOOKS_EVERY);
        }
        self.set_step(id, Step::Waiting(wait.state));
        self.after(left, Event::Call { id });
    }

    /// `None`: its agent has ended meanwhile.
    fn take_step(&mut self, id: u64) -> Option<Step> {
        let call = self.http_calls.calls.get_mut(&id).filter(|call| !matches!(call.step, Step::Lost))?;
        Some(std::mem::replace(&mut call.step, Step::Waiting(WaitState::default())))
    }

    pub fn call_confirmed(&mut self, id: u64, confirmed: bool) -> Result<(), String> {
        match self.take_step(id) {
            None => Ok(()),
            Some(Step::Confirming(wait)) if confirmed => {
                self.set_step(id, Step::Waiting(wait.state.confirmed()));
                self.go_on(id)
            }
            Some(Step::Confirming(wait)) => {
                self.wait_for(id, wait);
                Ok(())
            }
            Some(_) => Err(format!("call {id} asked for no confirmation")),
        }
    }

    pub fn call_forwarded(
        &mut self,
        id: u64,
        result: Result<ForwardedResponse, ForwardFailure>,
    ) -> Result<(), String> {
        self.note_passed_on(id, &result);
        let wait = match self.take_step(id) {
            None => return Ok(()),
            Some(Step::Forwarded(wait)) => wait,
            Some(_) => return Err(format!("call {id} was not forwarded, or was answered twice")),
        };
        match result {
            Ok(response) => self.end_call(id, Outcome::Answered(response.into())),
            Err(ForwardFailure::NotDone) => {
                self.wait_for(id, wait);
                Ok(())
            }
            Err(ForwardFailure::Refused(refusal)) => self.end_call(id, Outcome::Answered(refusal.into())),
            Err(ForwardFailure::Unknown) => self.end_call(id, Outcome::Unknown),
        }
    }

    fn note_passed_on(&mut self, id: u64, result: &Result<ForwardedResponse, ForwardFailure>) {
        match (self.http_calls.calls.get(&id).map(|call| call.at), result) {
            (Some(Machine::Node(_)), Ok(_)) => self.faults.fired(Kind::AskedThroughANode),
            (Some(Machine::Node(_)), Err(ForwardFailure::Unknown)) => {
                self.faults.fired(Kind::UnknownThroughANode);
            }
            _ => {}
        }
    }

    /// The servers' answer to a write; false if no call has asked for it.
    pub fn call_written(&mut self, id: u64, result: &Result<WriteReply, Refusal>) -> Result<bool, String> {
        if id < FIRST_CALL {
            return Ok(false);
        }
        match self.take_step(id) {
            None => {}
            Some(Step::Writing(responder)) => {
                self.end_call(id, Outcome::Answered(responder.response(result.clone())))?;
            }
            Some(_) => return Err(format!("call {id} wrote nothing, or was answered twice")),
        }
        Ok(true)
    }

    fn end_call(&mut self, id: u64, outcome: Outcome) -> Result<(), String> {
        let Some(call) = self.http_calls.calls.remove(&id) else { return Ok(()) };
        match call.serving {
            None if self.asks.asked(id) => self.ask_answered(id, outcome),
            None => self.client_answered(id, outcome),
            // who has passed it on hears that the link is gone
            Some(_) if matches!(call.step, Step::Lost) => Ok(()),
            Some(Serving { at, number, leader_only }) => {
                let response = match outcome {
                    Outcome::Answered(response) => Some(response.into()),
                    Outcome::Unknown if leader_only => None,
                    // what an agent says to its own users
                    Outcome::Unknown => Some(Response::from(unknown()).into()),
                };
                self.server_input(at, Input::Served { serving: number, response });
                Ok(())
            }
        }
    }

    /// That agent is gone: what it was asked goes on with nobody, before anything that is still on its way arrives.
    pub fn lose_calls(&mut self, at: Machine) {
        let mut lost = vec![];
        for (id, call) in self.http_calls.calls.iter_mut().filter(|(_, call)| call.at == at) {
            call.step = Step::Lost;
            lost.push(*id);
        }
        lost.into_iter().for_each(|id| self.at(self.now, Event::Call { id }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::elections::{await_leader, region_of, run_for};
    use super::super::place::NodeAt;
    use super::super::users::HOME_REGION;
    use super::*;

    const NODE: NodeAt = NodeAt { region: HOME_REGION, node: 0 };
    const JOB: &str = "http-0";

    fn restart(world: &mut World, at: Machine) {
        match at {
            Machine::Server(at) => {
                world.stop_server(at, Span::hours(10));
                world.start_server(at).expect("its disk is sound");
            }
            Machine::Node(n) => {
                world.stop_agent(n);
                world.start_agent(n).expect("its disk is sound");
            }
        }
    }

    /// How far the calls are that write into the job.
    fn steps(world: &World) -> Vec<&Step> {
        let calls = world.http_calls.calls.values();
        let writes = calls.filter(|call| String::from_utf8_lossy(&call.request.body).contains(JOB));
        writes.map(|call| &call.step).collect()
    }

    /// The leader is at work on it when a process on its way ends, and the next one starts there in the same moment.
    #[test]
    fn a_call_ends_with_an_agent_that_is_back_at_once() {
        for which in 0..3 {
            let mut world = region_of(3, 1);
            let (leader, _) = await_leader(&mut world);
            run_for(&mut world, Span::seconds(20));
            let others = world.regions.servers().into_iter().filter(|at| *at != leader);
            let follower = others.map(Machine::Server).next().expect("there are more");
            let (asked, ends) = [
                (follower, follower),
                (follower, Machine::Server(leader)),
                (Machine::Node(NODE), Machine::Node(NODE)),
            ][which];
            world.client_writes(asked, JOB.into());
            while !steps(&world).iter().any(|step| matches!(step, Step::Writing(_))) {
                assert_eq!(world.clients.acknowledged, 0, "it was under way");
                run_for(&mut world, Span(20_000));
            }
            restart(&mut world, ends);
            run_for(&mut world, Span::minutes(1));
            assert_eq!((world.clients.unknown, world.clients.acknowledged), (1, 0), "{ends} ended");
            assert!(steps(&world).is_empty(), "nothing goes on");
        }
    }
}
