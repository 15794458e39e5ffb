//! Protections of the program, and how each is switched off, so that the checker can show that it would notice.

/// A version of the program without one protection.
pub(crate) struct Broken {
    pub(crate) name: &'static str,
    pub(crate) edits: &'static [Edit],
}

/// A text that is in a file exactly once, and what takes its place.
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) text: &'static str,
    pub(crate) replacement: &'static str,
}

pub(crate) const BROKEN: &[Broken] = &[
    // The job is told to end when its time is up, instead of so early that it is dead by then; the guardian waits for that.
    Broken {
        name: "kill-margin",
        edits: &[
            Edit {
                file: "src/run/timing.rs",
                text: "        end - self.margin\n",
                replacement: "        end + self.kill_after\n",
            },
            Edit {
                file: "src/run/timing.rs",
                text: "        end - self.margin / 2\n",
                replacement: "        end + self.kill_after + self.margin\n",
            },
        ],
    },
    // A daemon of the job is init's, and nobody's descendant.
    Broken {
        name: "subreaper",
        edits: &[Edit {
            file: "src/job/tree.rs",
            text: "set_child_subreaper(true)",
            replacement: "set_child_subreaper(false)",
        }],
    },
    // The guardian ends the command's group only.
    Broken {
        name: "guardian-walk",
        edits: &[Edit {
            file: "src/job/guardian/child.rs",
            text: "self.owner.is_empty() || ",
            replacement: "!self.owner.is_empty() || ",
        }],
    },
    // Nobody ends the job of a shedlock that was killed.
    Broken {
        name: "guardian",
        edits: &[Edit {
            file: "src/config/policy.rs",
            text: "guarded: lease.is_some() && ",
            replacement: "guarded: lease.is_none() && lease.is_some() && ",
        }],
    },
    // A host that was frozen goes on, and asks later.
    Broken {
        name: "stall-check",
        edits: &[Edit {
            file: "src/supervise/timer.rs",
            text: "        slept > MIN_STALL || late > MIN_STALL\n",
            replacement: "        slept > MIN_STALL && late < MIN_STALL\n",
        }],
    },
    // Whoever releases, frees the lock, whosever it is.
    Broken {
        name: "owner-check",
        edits: &[
            Edit {
                file: "src/backend/sql/sqlite/statements.rs",
                text: "Some(row) if row.owner == claim.owner.as_str() && row.is_held(now) =>",
                replacement: "Some(row) =>",
            },
            Edit {
                file: "src/backend/sql/postgres/run_statements.rs",
                text: "WHERE name::text = $1 AND (locked_by::text = $4 OR locked_by::text = $2 AND {held})",
                replacement: "WHERE name::text = $1 AND $2::text IS NOT NULL",
            },
            Edit {
                file: "src/backend/sql/mysql/templates.rs",
                text: "locked_by = {ended} \\\n    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}",
                replacement: "locked_by = {ended} \\\n    WHERE name = {name}",
            },
            Edit { file: "src/backend/redis/release.lua", text: "elseif owner == caller", replacement: "elseif value" },
        ],
    },
];
