//! Judges the columns of a table of locks, for `shedlock check`, whatever created the table. Nothing here asks a server.

use crate::backend::Finding;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::lock::BackendError;

/// Characters that the columns hold in the layout of the Java library ShedLock.
const MIN_NAME_LENGTH: u32 = 64;
const MIN_OWNER_LENGTH: u32 = 255;
/// Digits of a second that a time needs so that a lock does not end early.
const MIN_SECOND_DIGITS: u32 = 3;

/// Consequence of a history that cannot be written.
pub(crate) const NO_TOKENS: &str = "locks work without tokens";
/// Consequence of a history that can be written, but not changed afterwards.
pub(crate) const NO_ENDS: &str = "locks have tokens, but the history lacks ends of runs, and keeps growing";

/// Describes a column as the server does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Type in lower case, such as `character varying(64)`.
    pub(crate) kind: String,
    pub(crate) nullable: bool,
    /// Set if an INSERT may leave out the column.
    pub(crate) optional: bool,
}

/// Holds the syntax of the statements that repair a table.
pub(crate) struct Dialect {
    /// Statement that changes a column's type, with the marks `{table}`, `{column}` and `{type}`.
    pub(crate) change_type: &'static str,
    pub(crate) not_null: &'static str,
    pub(crate) text: [&'static str; 2],
    pub(crate) time: &'static str,
    /// Digits of a second in a time type that does not say how many.
    pub(crate) default_digits: u32,
    pub(crate) add_key: &'static str,
    /// Set if the server stores only values of a column's type.
    pub(crate) enforces_types: bool,
}

/// Holds the columns of one table, to be judged.
pub(crate) struct Columns<'a> {
    pub(crate) table: &'a str,
    pub(crate) all: Vec<Column>,
    pub(crate) dialect: &'a Dialect,
}

impl Columns<'_> {
    /// Returns everything that is wrong with the columns, or one good finding.
    pub(crate) fn judge(&self) -> Vec<Finding> {
        let Dialect { text: [name, owner], time, .. } = *self.dialect;
        let mut found = Vec::new();
        for (column, wanted) in [("name", name), ("lock_until", time), ("locked_at", time), ("locked_by", owner)] {
            match self.all.iter().find(|there| there.name.eq_ignore_ascii_case(column)) {
                None => found.push(Finding::bad(
                    "columns",
                    format!("{} has no column {column}", self.table),
                    format!("ALTER TABLE {} ADD {column} {wanted} NOT NULL", self.table),
                )),
                Some(there) => found.extend(self.judge_one(there, wanted)),
            }
        }
        found.extend(self.all.iter().filter(|there| requires_unknown_value(there)).map(|there| {
            Finding::bad(
                "columns",
                format!("{} requires a value, but shedlock writes none", there.name),
                format!(
                    "give it a default, or name another table with ?table=, if {} is not a table of locks",
                    self.table
                ),
            )
        }));
        if found.is_empty() {
            let said: Vec<_> = self.all.iter().map(|there| format!("{} {}", there.name, there.kind)).collect();
            found.push(Finding::good("columns", said.join(", ")));
        }
        found
    }

    fn judge_one(&self, there: &Column, wanted: &str) -> Option<Finding> {
        // SQL ignores the case of column names, and the Java library can create MIN_NAME_LENGTH.
        let (name, kind) = (&there.name.to_ascii_lowercase(), &there.kind);
        let (is_time, number) = (name.contains("lock_until") || name.contains("locked_at"), number(kind));
        let change = self.dialect.change_type.replace("{table}", self.table).replace("{column}", name);
        let change = change.replace("{type}", wanted);
        let null = || self.judge_null(there, name);
        if !self.dialect.enforces_types {
            return null();
        }
        if is_time && !kind.starts_with("timestamp") && !kind.starts_with("datetime") || !is_time && !is_text(kind) {
            return Some(Finding::bad("columns", format!("{name} is {kind}, which does not work"), change));
        }
        if is_time && number.unwrap_or(self.dialect.default_digits) < MIN_SECOND_DIGITS {
            let seen = format!("{name} is {kind}, without milliseconds: a lock would end too early");
            return Some(Finding::bad("columns", seen, change));
        }
        let least = if name == "name" { MIN_NAME_LENGTH } else { MIN_OWNER_LENGTH };
        if let Some(length) = number.filter(|length| !is_time && *length < least) {
            let seen = format!("{name} is {kind}, which is too short: {length} characters instead of {least}");
            return Some(Finding::unwise("columns", seen, change));
        }
        null()
    }

    fn judge_null(&self, there: &Column, name: &str) -> Option<Finding> {
        there.nullable.then(|| {
            let not_null = self.dialect.not_null.replace("{table}", self.table).replace("{column}", name);
            let seen = format!("{name} may be NULL, which is neither held nor free");
            Finding::unwise("columns", seen, not_null.replace("{type}", &there.kind))
        })
    }
}

/// Explains that the server wants a value for a column that is none of shedlock's.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn unknown_column_requires_value(table: &str, column: &str) -> BackendError {
    BackendError::permanent(format!("the column {column} of {table} requires a value, but shedlock writes none"))
        .hint(format!("give it a default, or name another table with ?table=, if {table} is not a table of locks"))
}

/// Returns whether the column is none of shedlock's, and requires a value.
fn requires_unknown_value(there: &Column) -> bool {
    let known = ["name", "lock_until", "locked_at", "locked_by"];
    !there.nullable && !there.optional && !known.contains(&there.name.to_ascii_lowercase().as_str())
}

fn is_text(kind: &str) -> bool {
    kind.contains("char") || kind.contains("text") || kind == "name"
}

/// Extracts the number from `varchar(64)` or `timestamp(3) without time zone`.
fn number(kind: &str) -> Option<u32> {
    kind.split_once('(')?.1.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Grade;

    const DIALECT: Dialect = Dialect {
        change_type: "ALTER TABLE {table} ALTER {column} TYPE {type}",
        not_null: "ALTER TABLE {table} ALTER {column} SET NOT NULL",
        text: ["VARCHAR(64)", "VARCHAR(255)"],
        time: "TIMESTAMP",
        default_digits: 6,
        add_key: "",
        enforces_types: true,
    };

    fn judged(kinds: [&str; 4], more: &[Column]) -> Vec<Finding> {
        let names = ["name", "lock_until", "locked_at", "locked_by"];
        let column =
            |(name, kind): (&str, &str)| Column { name: name.to_owned(), kind: kind.to_owned(), ..Column::default() };
        let all = names.into_iter().zip(kinds).filter(|(_, kind)| !kind.is_empty()).map(column);
        Columns { table: "locks", all: all.chain(more.iter().cloned()).collect(), dialect: &DIALECT }.judge()
    }

    #[test]
    fn what_locks_need_is_good_with_or_without_a_zone() {
        for time in ["timestamp without time zone", "timestamp(3) with time zone", "datetime(6)"] {
            let found = judged(["character varying(64)", time, time, "character varying(255)"], &[]);
            assert_eq!((found.len(), found[0].grade), (1, Grade::Good), "{found:?}");
        }
        assert_eq!(judged(["text", "timestamp", "timestamp", "text"], &[])[0].grade, Grade::Good);
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_bad_and_what_is_short_is_unwise() {
        for (kinds, grade, advice) in [
            (["", "timestamp", "timestamp", "text"], Grade::Bad, "ADD name VARCHAR(64) NOT NULL"),
            (["text", "date", "timestamp", "text"], Grade::Bad, "ALTER lock_until TYPE TIMESTAMP"),
            (["text", "timestamp", "timestamp(2)", "text"], Grade::Bad, "ALTER locked_at TYPE TIMESTAMP"),
            (["integer", "timestamp", "timestamp", "text"], Grade::Bad, "ALTER name TYPE VARCHAR(64)"),
            (["varchar(63)", "timestamp", "timestamp", "text"], Grade::Unwise, "ALTER name TYPE VARCHAR(64)"),
            (["text", "timestamp", "timestamp", "varchar(254)"], Grade::Unwise, "ALTER locked_by TYPE VARCHAR(255)"),
        ] {
            let found = judged(kinds, &[]);
            assert_eq!((found.len(), found[0].grade), (1, grade), "{found:?}");
            assert!(found[0].advice.as_ref().unwrap().contains(advice), "{found:?}");
        }
    }

    #[test]
    fn a_column_of_anothers_may_not_ask_for_a_value() {
        let more = |nullable, optional| Column { name: "x".to_owned(), kind: "integer".to_owned(), nullable, optional };
        let grade = |column| judged(["text", "timestamp", "timestamp", "text"], &[column])[0].grade;
        assert_eq!(grade(more(false, false)), Grade::Bad);
        assert_eq!(grade(more(true, false)), Grade::Good);
        assert_eq!(grade(more(false, true)), Grade::Good);
    }
}
