//! Locks that are held over some rounds, each taken anew and for long. A failover takes longer than the locks of a round last; what the
//! next leader has not heard of is seen by these.

use std::time::Duration;

use super::client::Client;
use super::figures::Figures;
use super::history::{Answer, Call, Request};
use super::judge::{Judgement, judge};
use crate::lock::{LockName, Owner, StillHeld};
use crate::system::Moment;

/// How long they are taken for: after a kill they are free within a minute.
const LEASE: Duration = Duration::from_secs(50);
/// How many are held at a time: each over so many rounds.
const MOST: usize = 4;

/// The locks, the oldest first.
#[derive(Default)]
pub(crate) struct LongLocks(Vec<LongLock>);

struct LongLock {
    name: LockName,
    owner: Owner,
    calls: Vec<Call>,
}

impl LongLock {
    /// Sends a request for it, and returns whether it was answered.
    fn ask(&mut self, client: &mut Client, request: Request) -> bool {
        let call = client.ask(&self.name, 0, &self.owner, request, None);
        let is_answered = !matches!(call.answer, Answer::Failed { .. });
        self.calls.push(call);
        is_answered
    }

    fn is_lost(&self) -> bool {
        self.calls.last().is_some_and(|call| matches!(call.answer, Answer::StillHeld(StillHeld::Lost)))
    }
}

impl LongLocks {
    /// Renews each lock, gives the oldest back and takes a new one. Returns the names that are not used any more. A server that
    /// is away is asked once.
    pub(crate) fn turn(
        &mut self,
        client: &mut Client,
        new: Option<(LockName, Owner)>,
        (figures, judgement): (&mut Figures, &mut Judgement),
        start: Moment,
    ) -> Vec<LockName> {
        let is_last = new.is_none();
        let is_there = self.0.iter_mut().all(|lock| lock.ask(client, Request::Renew { lease: LEASE }));
        let (over, staying) =
            std::mem::take(&mut self.0).into_iter().enumerate().partition::<Vec<_>, _>(|(place, lock)| {
                is_last || lock.is_lost() || (*place == 0 && is_there && lock.calls.len() > MOST)
            });
        self.0 = staying.into_iter().map(|(_, lock)| lock).collect();
        let mut names = Vec::new();
        for (_, mut lock) in over {
            let _ = is_there && lock.ask(client, Request::Release { hold: Duration::ZERO, undo: false });
            lock.calls.iter().for_each(|call| figures.add(call));
            judgement.merge(judge(&lock.calls, start));
            names.push(lock.name);
        }
        let Some((name, owner)) = new else { return names };
        if !is_there || self.0.len() >= MOST {
            names.push(name);
            return names;
        }
        let mut lock = LongLock { name, owner, calls: Vec::new() };
        if lock.ask(client, Request::Acquire { lease: LEASE }) {
            self.0.push(lock);
        } else {
            let _ = lock.ask(client, Request::Release { hold: Duration::ZERO, undo: true });
            names.push(lock.name);
        }
        names
    }
}
