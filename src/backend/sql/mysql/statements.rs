//! Builds the message of an operation: all its statements, with those of the history or without them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::errors::Stage;
use super::tables::Tables;
use super::templates::{
    ACQUIRE, ALL_RUNS, BEGINNING, CHANGE, CLOSE_RECORD, COMMIT, DELETE_RECORD, END, EXACT_OWNER, FORGET, FORGET_RUNS,
    LATEST_TIMESTAMP, LOCK_WAIT_SQL, LOCKS, MARK_AS_VOID, NOW, OWN_RECORD, PRUNE, READ_ROW, READ_SERVER, RECORD,
    RELEASE, RENEW, RUNS, RUNS_OF_EACH, SINCE, STRICT_MODE, TELL_WRITTEN,
};
use crate::backend::sql::engine::History;
use crate::lock::{Change, Claim, Closing, Holder, LockName, Removal, RunQuery};

/// Holds the statements of one operation, which are sent together.
pub(crate) struct Message {
    pub(crate) text: String,
    /// Index of the statement that writes the lock's row.
    pub(crate) write: usize,
    /// Index of the statement that inserts into the history, or deletes from it.
    pub(crate) record: Option<usize>,
    /// Index of the statement that commits; those between `write` and this one are the history's.
    pub(crate) commit: usize,
}

impl Message {
    /// Returns the stage to which the statement of this number belongs.
    pub(crate) fn stage(&self, number: usize) -> Stage {
        match number {
            _ if number <= self.write => Stage::Lock,
            _ if number < self.commit => Stage::History,
            _ => Stage::Commit,
        }
    }
}

impl Tables {
    /// Returns statements that read the locks of these names, or all locks: one for each name, whose rows have the
    /// requested name.
    pub(crate) fn locks(&self, names: &BTreeSet<&str>) -> String {
        let read = |name: &&str| LOCKS.replace("{name}", &literal(name)) + " WHERE " + &has_name(name);
        let mut statements: Vec<String> = names.iter().map(read).collect();
        if statements.is_empty() {
            statements.push(LOCKS.replace("{name}", "name"));
        }
        self.listing(&statements.join("; "))
    }

    /// Returns statements that list the runs that a query asks for.
    pub(crate) fn runs(&self, wanted: &RunQuery) -> String {
        let (exact, names): (Vec<&String>, Vec<&String>) =
            wanted.names.iter().partition(|name| needs_exact_comparison(name));
        let mut any: Vec<String> = exact.into_iter().map(|name| has_name(name)).collect();
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().map(|name| literal(name)).collect();
            any.push(format!("name IN ({})", names.join(", ")));
        }
        let names = if any.is_empty() { "TRUE".to_owned() } else { format!("({})", any.join(" OR ")) };
        let since = wanted.since.map(|since| SINCE.replace("{millis}", &since.0.to_string()));
        let runs = if wanted.newest_per_lock.is_some() { RUNS_OF_EACH } else { ALL_RUNS };
        let text = RUNS
            .replace("{runs}", runs)
            .replace("{names}", &names)
            .replace("{since}", since.as_deref().unwrap_or("TRUE"))
            .replace("{newest_per_lock}", &wanted.newest_per_lock.unwrap_or(u32::MAX).to_string())
            .replace("{limit}", &wanted.limit.unwrap_or(u32::MAX).to_string());
        self.listing(&text)
    }

    /// Ends a listing with a commit. On a server without autocommit the next listing would otherwise show the same
    /// rows.
    fn listing(&self, statements: &str) -> String {
        self.fill(&format!("{READ_SERVER}; {statements}; {COMMIT}")).replace("{now}", NOW)
    }

    /// Builds the message of an acquisition; with `asks_written` the server says into what kinds of tables it wrote.
    pub(crate) fn acquire(&self, claim: &Claim, history: History, asks_written: bool) -> Message {
        let statements = match history {
            History::With => [ACQUIRE, RECORD].as_slice(),
            History::Without => &[ACQUIRE],
        };
        let message = self.message(statements, claim, claim.lease);
        let record = (history == History::With).then_some(message.commit - 1);
        let text = if asks_written { message.text.replacen("SET ", TELL_WRITTEN, 1) } else { message.text };
        Message { text, record, ..message }
    }

    /// Builds the message of a renewal.
    pub(crate) fn renew(&self, claim: &Claim) -> Message {
        self.message(&[RENEW], claim, claim.lease)
    }

    /// Builds the message of a release.
    pub(crate) fn release(&self, claim: &Claim, hold: Duration, closing: Closing, history: History) -> Message {
        if history == History::Without {
            return self.message(&[RELEASE], claim, hold);
        }
        let close = match closing {
            Closing::Ended { outcome, exit_code } => {
                let code = exit_code.map_or_else(|| "NULL".to_owned(), |code| code.to_string());
                CLOSE_RECORD.replace("{code}", &code).replace("{outcome}", &literal(outcome.as_str()))
            }
            Closing::Unused => DELETE_RECORD.to_owned(),
            Closing::Undone => format!("{DELETE_RECORD}; {MARK_AS_VOID}"),
        };
        let prune = if claim.prunes() { [PRUNE].as_slice() } else { &[] };
        self.message(&[&[RELEASE, OWN_RECORD, &close], prune].concat(), claim, hold)
    }

    /// Builds the message of a change. When the row is read, a lock with the new owner counts as this owner's.
    pub(crate) fn change(&self, change: &Change) -> Message {
        let another = change.to != change.from;
        let statement = CHANGE.replace("{since}", if another { "{now}" } else { BEGINNING });
        let text = self
            .transaction(&[&statement], change.left)
            .replace("name = {name}", &has_name(change.name.as_str()))
            .replace("{name}", &literal(change.name.as_str()))
            .replace("locked_by = {owner}", "{stored} = {to}")
            .replace("locked_by = {ended}", "FALSE")
            .replace("{stored}", EXACT_OWNER)
            .replace("{from}", &literal(&change.from))
            .replace("{to}", &literal(&change.to));
        Self::cut(&text)
    }

    /// Builds the message of a removal. It ends by reading the row that stays.
    pub(crate) fn forget(&self, removal: &Removal, history: History) -> Message {
        let statements = match history {
            History::With => [FORGET, FORGET_RUNS].as_slice(),
            History::Without => &[FORGET],
        };
        let text = self
            .transaction(statements, Duration::ZERO)
            .replace("name = {name}", &has_name(removal.name.as_str()))
            .replace("{name}", &literal(removal.name.as_str()))
            .replace("{stored}", EXACT_OWNER)
            .replace("{from}", &literal(&removal.seen))
            .replace("{age}", &removal.mark_age.as_secs().to_string())
            .replace("locked_by = {owner}", "FALSE")
            .replace("locked_by = {ended}", "FALSE");
        let message = Self::cut(&text);
        let record = (history == History::With).then_some(message.commit - 2);
        Message { record, ..message }
    }

    fn message(&self, statements: &[&str], claim: &Claim, duration: Duration) -> Message {
        let text = self
            .transaction(statements, duration)
            .replace("{keep}", &claim.keep.max(1).to_string())
            .replace("{strict}", if needs_exact_comparison(claim.name.as_str()) { STRICT_MODE } else { "" })
            .replace("{name}", &literal(claim.name.as_str()))
            .replace("{owner}", &literal(claim.owner.as_str()))
            .replace("{host}", &literal(Holder::parse(claim.owner.as_str()).host()))
            .replace("{ended}", &literal(&claim.owner.ended()));
        Self::cut(&text)
    }

    /// Builds a whole transaction, and the reading of the row after it. The explicit commit is for servers without autocommit.
    fn transaction(&self, statements: &[&str], duration: Duration) -> String {
        self.fill(&[&[LOCK_WAIT_SQL], statements, &[COMMIT, READ_ROW]].concat().join("; "))
            .replace("{end}", END)
            .replace("{limit}", if self.holds_any_time { "TIMESTAMP'9999-12-31 00:00:00'" } else { LATEST_TIMESTAMP })
            .replace("{wait}", &self.lock_wait.as_secs().to_string())
            .replace("{now}", NOW)
            .replace("{micros}", &micros(duration).to_string())
    }

    fn cut(text: &str) -> Message {
        let text = text.replace("{strict}", "");
        let commit = text.matches(';').count() - 1;
        Message { text, write: LOCK_WAIT_SQL.matches(';').count() + 1, record: None, commit }
    }
}

/// Writes a text as a literal in hexadecimal, in which no setting of a server gives any character a meaning.
fn literal(text: &str) -> String {
    text.bytes().fold("_utf8mb4 x'".to_owned(), |literal, byte| literal + &format!("{byte:02x}")) + "'"
}

/// Returns the condition for the row of a lock. Two names that run accepts are one lock if the table's collation says so.
/// Collations also ignore spaces at the end, and some of them control characters: a name with such is compared byte by byte,
/// because a command for `job ` must not free `job`.
fn has_name(name: &str) -> String {
    let literal = literal(name);
    match needs_exact_comparison(name) {
        true => format!("name = {literal} AND HEX(CONVERT(name USING utf8mb4)) = HEX({literal})"),
        false => format!("name = {literal}"),
    }
}

fn needs_exact_comparison(name: &str) -> bool {
    LockName::new(name).is_err()
}

/// Returns microseconds, rounded up to whole milliseconds: the columns keep no more.
fn micros(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000) * 1000
}

#[cfg(test)]
mod tests {
    use super::super::templates::CLOCK_WAS_AHEAD;
    use super::*;
    use crate::lock::{Owner, Purpose, RunOutcome};

    #[test]
    fn a_clock_that_was_ahead_is_the_same_everywhere() {
        let [ours, others] = ["a:1:2", "java"].map(|owner| crate::backend::clock::min_clock_lead(owner).as_secs());
        assert!(
            CLOCK_WAS_AHEAD.ends_with(&format!("+ INTERVAL IF(locked_by LIKE '%:%:%', {ours}, {others}) SECOND")),
            "{CLOCK_WAS_AHEAD}"
        );
    }

    #[test]
    fn no_name_ends_a_statement() {
        let name = LockName::new("a'; DROP TABLE `shedlock`; -- \\ {owner} ä").unwrap();
        let claim = Claim {
            name,
            owner: Owner::new("o'h", 1, 2),
            lease: Duration::from_micros(1500),
            keep: 100,
            purpose: Purpose::Run,
        };
        let tables = Tables::new("ops.locks", Duration::from_secs(1));
        let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
        let change = |claim: &Claim, to: &str| Change {
            name: claim.name.clone(),
            from: claim.owner.as_str().to_owned(),
            to: to.to_owned(),
            left: claim.lease,
        };
        for (message, statements) in [
            (tables.acquire(&claim, History::With, true), 9),
            (tables.acquire(&claim, History::Without, false), 5),
            (tables.renew(&claim), 5),
            (tables.release(&claim, claim.lease, closing, History::With), 7),
            (tables.release(&claim, claim.lease, Closing::Undone, History::With), 8),
            (tables.release(&Claim { keep: 1, ..claim.clone() }, claim.lease, closing, History::With), 9),
            (tables.release(&claim, claim.lease, closing, History::Without), 5),
            (tables.change(&change(&claim, claim.owner.as_str())), 5),
            (tables.change(&change(&claim, "another's")), 5),
        ] {
            let text = message.text;
            assert!(!text.contains('{') && !text.contains("DROP") && !text.contains("o'h"), "{text}");
            assert!(text.contains("x'61273b2044524f50") && text.contains("INTERVAL 2000 MICROSECOND"), "{text}");
            assert!(text.contains("`ops`.`locks` ") && !text.contains("`ops`.`locks`_"), "{text}");
            let parts: Vec<&str> = text.split("; ").collect();
            assert_eq!(parts.len(), statements, "{text}");
            assert_eq!(parts[message.commit], COMMIT);
            assert!(
                parts[message.write].starts_with("INSERT INTO `ops`.`locks` ")
                    || parts[message.write].starts_with("UPDATE")
            );
            assert!(
                message.record.is_none_or(|record| parts[record].starts_with("INSERT INTO `ops`.`locks_history` "))
            );
        }
    }
}
