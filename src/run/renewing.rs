//! A run while its job lives: the lock is renewed, and what comes of it if that fails.

use std::time::Duration;

use super::ending::Why;
use super::running::{Renewal, Running};
use super::{Action, Notice, NoticeKind, OnLost, Phase, Run};
use crate::backend::{Kept, Trouble, TroubleKind};
use crate::clock::Moment;

/// Who has tried for so long may have met silence.
const SILENCE: Duration = Duration::from_secs(1);

impl Run {
    /// Whether the lock has to be renewed yet, and would be lost otherwise.
    pub(super) fn is_watched(&self, running: &Running) -> bool {
        let over = running.lost_told || running.ending.is_some();
        running.lease.is_some() && self.policy.renews() && !over && !running.lasts()
    }

    /// When a lock that is not renewed by then is given up.
    pub(super) fn give_up_at(&self, running: &Running) -> Moment {
        match (self.policy.on_lost, running.ending) {
            (OnLost::Kill, None) => self.timing.before_end.stop_at(running.end),
            _ => running.end,
        }
    }

    /// Asks for a renewal; also of a lock that lasts long enough, since the answer says whether it is ours.
    pub(super) fn renew(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        let killed = running.ending.is_some_and(|ending| ending.killed);
        let (limit, deadline) = match killed {
            true => (None, now + self.policy.backend_timeout),
            false => (running.limit, self.give_up_at(running)),
        };
        todo.push(Action::Renew { lease: self.policy.lease(), limit, deadline });
        let Phase::Running(running) = &mut self.phase else { return };
        let due = match running.renewal {
            Renewal::Due(at) => at.min(now),
            Renewal::Off | Renewal::InFlight { .. } => now,
        };
        running.renewal = Renewal::InFlight { due, asked: now, sent: None, limit };
    }

    /// The thread that talks to the backend has come to it, which takes long on a busy host.
    pub(super) fn on_renewing(&mut self, since: Moment) {
        let Phase::Running(running) = &mut self.phase else { return };
        if let Renewal::InFlight { asked, sent, .. } = &mut running.renewal
            && since >= *asked
        {
            *sent = Some(since);
        }
    }

    /// Why a lock that is given up at `now` was not renewed.
    pub(super) fn why_not_renewed(&self, running: &Running, now: Moment) -> NoticeKind {
        if let Some(trouble) = &running.unrenewed {
            return NoticeKind::NotRenewed(Some(trouble.clone()));
        }
        let give_up = self.give_up_at(running);
        let overslept = now.since(give_up);
        match running.renewal {
            Renewal::Due(due) => NoticeKind::NotAsked(now.since(due)),
            Renewal::InFlight { due, sent: None, .. } => NoticeKind::NotAsked(now.since(due)),
            // The backend had less time than we took from it.
            Renewal::InFlight { due, sent: Some(sent), .. } if give_up.since(sent) <= sent.since(due) + overslept => {
                NoticeKind::NotAsked(sent.since(due) + overslept)
            }
            Renewal::InFlight { .. } | Renewal::Off => NoticeKind::NotRenewed(None),
        }
    }

    pub(super) fn on_renewed(
        &mut self,
        answer: Result<Kept, Trouble>,
        sent: Moment,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        let Phase::Running(running) = &self.phase else { return };
        let abandoned = running.ending.is_none() && self.is_abandoned(running, now);
        let Phase::Running(running) = &mut self.phase else { return };
        match answer {
            // It was asked for to check a lock that the job runs on without by now.
            Ok(Kept::Lost) | Err(_) if abandoned => running.renewal = Renewal::Off,
            // Kept or lost is true whenever we learn of it.
            Ok(Kept::Kept) => self.on_kept(sent, now, todo),
            Ok(Kept::Lost) => {
                let kind = NoticeKind::of_lost(running.end, now);
                self.on_lost(kind, now, todo);
            }
            Err(_) if !running.is_in_flight() => {}
            Err(trouble) => {
                let first = running.unrenewed.replace(trouble.clone()).is_none();
                if let (Some(extent), Some(limit)) = (&mut running.extent, running.limit) {
                    // It may have been carried out all the same, or will be.
                    extent.renewed(self.policy.lease().min(limit.since(sent)), now);
                    if let (Renewal::InFlight { asked, .. }, true) = (running.renewal, trouble.unclear) {
                        extent.left_unclear(self.policy.lease().min(limit.since(asked)));
                    }
                }
                let Phase::Running(running) = &self.phase else { return };
                let left = self.give_up_at(running).since(now);
                let pause = self.timing.renew_again(left, trouble.kind == TroubleKind::Lasting);
                let Phase::Running(running) = &mut self.phase else { return };
                running.renewal = Renewal::Due(now + pause);
                if first {
                    todo.push(Action::Tell(Notice::NotRenewed(trouble)));
                }
            }
        }
    }

    fn on_kept(&mut self, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let lease = self.policy.lease();
        let Phase::Running(running) = &mut self.phase else { return };
        running.unrenewed = None;
        let (asked, limit) = match running.renewal {
            Renewal::InFlight { asked, limit, .. } => (asked, limit),
            Renewal::Off | Renewal::Due(_) => (sent, running.limit),
        };
        let granted = limit.map_or(lease, |limit| lease.min(limit.since(sent)));
        running.end = running.end.max(sent + granted);
        if let Some(extent) = &mut running.extent {
            extent.renewed(granted, now);
            // This was not the first try, and of another there was no answer.
            if let (Some(limit), true) = (limit, sent.since(asked) >= SILENCE) {
                extent.left_unclear(lease.min(limit.since(asked)));
            }
        }
        todo.push(Action::Tell(Notice::Renewed));
        if running.renewal != Renewal::Off {
            running.renewal = match running.ending {
                Some(ending) if ending.killed => Renewal::Due(self.timing.renew_at(sent)),
                _ if !running.lasts() => Renewal::Due(self.timing.renew_at(sent)),
                Some(_) => Renewal::Due(self.timing.before_end.undead_at(running.end)),
                None => Renewal::Off,
            };
        }
        match running.held {
            Some(since) if sent >= since => self.let_go(todo),
            // It was asked for before we stood still.
            Some(_) if running.ending.is_none() => self.renew(now, todo),
            _ => {}
        }
        let Phase::Running(running) = &self.phase else { return };
        if self.policy.guarded {
            todo.push(Action::Guard(self.guard_at(running.end, running.limit)));
        }
    }

    /// The lock is not ours any more, or cannot be kept.
    pub(super) fn on_lost(&mut self, kind: NoticeKind, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        running.lost |= matches!(kind, NoticeKind::Gone | NoticeKind::Late);
        running.renewal = Renewal::Off;
        if !std::mem::replace(&mut running.lost_told, true) {
            todo.push(Action::Tell(Notice::Lost(kind, self.policy.on_lost)));
        }
        if self.policy.on_lost == OnLost::Ignore {
            // It was tried until the end.
            running.lost = true;
            self.let_go(todo);
            return;
        }
        let before_end = self.timing.before_end;
        let kill_at = before_end.kill_at(running.end).min(now + before_end.kill_after);
        match &mut running.ending {
            Some(ending) if ending.killed => return,
            Some(ending) => ending.kill_at = ending.kill_at.min(kill_at),
            None => {
                self.end_job(Why::Lost, kill_at, now);
                self.begin_the_end(now, todo);
            }
        }
        if self.policy.guarded {
            todo.push(Action::Guard(Some(before_end.undead_after(kill_at))));
        }
    }
}
