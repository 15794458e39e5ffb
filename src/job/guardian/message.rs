//! What shedlock sends to its guardian through a pipe, and how it is written there.

use super::super::tree::Id;
use crate::run::Group;

/// A message to the guardian.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The lock's owner, and shedlock's pid. It is the first message.
    Owner { parent: i32, owner: Vec<u8> },
    /// A child of shedlock that is not part of the job.
    UnrelatedChild(i32),
    /// An unrelated child that has ended: its number may become one of the job's.
    ChildEnded(i32),
    /// The command that was started.
    Job { id: Id, group: Group },
    /// The time at which the guardian kills the job even if shedlock lives, in nanoseconds on the boot clock.
    Deadline(Option<u64>),
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Owner { parent, owner } => (b'o', [&parent.to_le_bytes()[..], owner].concat()),
            Self::UnrelatedChild(pid) => (b's', pid.to_le_bytes().to_vec()),
            Self::ChildEnded(pid) => (b'g', pid.to_le_bytes().to_vec()),
            Self::Job { id, group } => {
                let own = [u8::from(*group == Group::Own)];
                (b'j', [&id.pid.to_le_bytes()[..], &id.start.to_le_bytes(), &own].concat())
            }
            Self::Deadline(None) => (b'n', Vec::new()),
            Self::Deadline(Some(nanos)) => (b'd', nanos.to_le_bytes().to_vec()),
        };
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
        [&[kind], &length.to_le_bytes()[..], &body].concat()
    }

    /// Takes the first message out of `bytes`; `None` if there is no whole one.
    pub(super) fn take(bytes: &mut Vec<u8>) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let body = rest.get(..length)?;
        let message = Self::read(*kind, body);
        bytes.drain(..3 + length);
        message
    }

    fn read(kind: u8, body: &[u8]) -> Option<Self> {
        Some(match kind {
            b'o' => {
                let (parent, owner) = body.split_first_chunk()?;
                Self::Owner { parent: i32::from_le_bytes(*parent), owner: owner.to_vec() }
            }
            b's' => Self::UnrelatedChild(i32::from_le_bytes(body.try_into().ok()?)),
            b'g' => Self::ChildEnded(i32::from_le_bytes(body.try_into().ok()?)),
            b'j' => {
                let (pid, rest) = body.split_first_chunk()?;
                let (start, own) = rest.split_first_chunk()?;
                let id = Id { pid: i32::from_le_bytes(*pid), start: u64::from_le_bytes(*start) };
                Self::Job { id, group: if own == [1] { Group::Own } else { Group::Shared } }
            }
            b'n' => Self::Deadline(None),
            b'd' => Self::Deadline(Some(u64::from_le_bytes(body.try_into().ok()?))),
            _ => return None,
        })
    }
}
