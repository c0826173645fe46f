//! Many connections of one thread: requests written, answers taken as they come. Small enough not to be what is measured.

use crate::agent::Agent;
use crate::http::{Answer, Http};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

pub struct Crowd {
    all: Vec<Http>,
}

impl Crowd {
    pub fn connect(agent: &Agent, count: usize) -> Result<Crowd, String> {
        let all = (0..count).map(|_| agent.http()).collect::<Result<_, _>>()?;
        Ok(Crowd { all })
    }

    /// Each asks for its own as soon as it is there: a connection that says nothing for five seconds is closed.
    pub fn asking(agent: &Agent, count: usize, path: impl Fn(usize) -> String) -> Result<Crowd, String> {
        let mut all = Vec::with_capacity(count);
        for n in 0..count {
            let mut http = agent.http()?;
            http.send("GET", &path(n), b"")?;
            all.push(http);
        }
        Ok(Crowd { all })
    }

    /// Until the agent has let every one of them go: their places are free for the next.
    pub fn leave(self) -> Result<(), String> {
        self.all.iter().try_for_each(|http| http.shut()).map_err(|e| format!("leaving: {e}"))?;
        self.all.into_iter().try_for_each(Http::rest).map_err(|e| format!("leaving: {e}"))
    }

    pub fn each(
        &mut self,
        mut with: impl FnMut(usize, &mut Http) -> Result<(), String>,
    ) -> Result<(), String> {
        self.all.iter_mut().enumerate().try_for_each(|(n, http)| with(n, http))
    }

    pub fn one(&mut self, n: usize) -> &mut Http {
        &mut self.all[n]
    }

    /// Those that have something to read, at the latest after `wait`.
    pub fn readable(&self, wait: Duration) -> Result<Vec<usize>, String> {
        let mut fds: Vec<PollFd<'_>> =
            self.all.iter().map(|http| PollFd::new(http.socket(), PollFlags::IN)).collect();
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        poll(&mut fds, Some(&wait)).map_err(|e| e.to_string())?;
        Ok(fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(n, _)| n).collect())
    }

    /// For this long everybody asks again as soon as the answer is there. How long each answer took.
    pub fn ask_for(
        &mut self,
        load: Duration,
        mut ask: impl FnMut(usize, &mut Http) -> Result<(), String>,
        mut check: impl FnMut(usize, Answer) -> Result<(), String>,
    ) -> Result<Vec<Duration>, String> {
        let start = Instant::now();
        let mut asked = vec![start; self.all.len()];
        self.each(|n, http| ask(n, http))?;
        let (mut took, mut open) = (vec![], self.all.len());
        while open > 0 {
            let ready = self.readable(Duration::from_secs(30))?;
            if ready.is_empty() {
                return Err("no answer within 30 seconds".into());
            }
            for n in ready {
                check(n, self.all[n].take_answer()?)?;
                let now = Instant::now();
                took.push(now - asked[n]);
                asked[n] = now;
                if now - start < load {
                    ask(n, &mut self.all[n])?;
                } else {
                    open -= 1;
                }
            }
        }
        Ok(took)
    }
}

/// The value below which so many in a hundred are.
pub fn percentile(took: &mut [Duration], percent: usize) -> Duration {
    took.sort_unstable();
    took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied().unwrap_or_default()
}
