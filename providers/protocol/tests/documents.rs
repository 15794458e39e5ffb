//! Compares what docs/providers.md and the manual say of the protocol with the types of this crate, and replays the conversation that
//! is recorded there with the example.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use shedlock_provider::{
    Class, Finding, Grade, Item, Made, Open, Opened, PROTOCOL, Reading, Record, Removed, Request, Run, Schema,
    StoreError, Written,
};

fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap()
}

/// Returns a run with all that a run can have. A new field does not compile here until it has been thought of.
fn run() -> Run {
    Run {
        token: 7,
        owner: "h:1:a".to_owned(),
        started_at: Some(1),
        ended_at: Some(2),
        exit_code: Some(0),
        outcome: Some("success".to_owned()),
    }
}

/// Returns a record with all that a record can have.
fn record() -> Record {
    let owner = "h:1:a".to_owned();
    Record { owner, since: Some(1), until: Some(2), set_at: Some(1), token: 7, runs: vec![run()] }
}

/// Returns a request of each kind.
fn requests() -> Vec<Request> {
    let (name, version) = ("a".to_owned(), "v".to_owned());
    let open = Open { protocol: PROTOCOL, url: "x:y".to_owned(), password: Some("p".to_owned()), timeout: 1 };
    let all = vec![
        Request::Open(open),
        Request::Read { name: name.clone() },
        Request::Write { name: name.clone(), version: Some(version.clone()), record: record() },
        Request::Remove { name, version },
        Request::List,
        Request::Make,
        Request::Schema,
        Request::Check,
    ];
    // A new kind does not compile here until it is above.
    for request in &all {
        match request {
            Request::Open(_) | Request::Read { .. } | Request::Write { .. } | Request::Remove { .. } => {}
            Request::List | Request::Make | Request::Schema | Request::Check => {}
        }
    }
    all
}

/// Returns an answer to a request, with all that it can have: one for each kind of line.
fn answers(request: &Request) -> Vec<Value> {
    match request {
        Request::Open(_) => {
            let opened = Opened { label: "x".to_owned(), grain: 1, runs: 1, version: Some("1".to_owned()) };
            vec![opened.to_json()]
        }
        Request::Read { .. } => {
            vec![Reading { now: 1, floor: 1, found: Some(("v".to_owned(), record())) }.to_json()]
        }
        Request::Write { .. } => vec![Written(true).to_json()],
        Request::Remove { .. } => vec![Removed(true).to_json()],
        Request::List => vec![Item::Lock("a".to_owned(), record()).to_json(), Item::End { now: 1 }.to_json()],
        Request::Make => vec![Made(vec!["made".to_owned()]).to_json()],
        Request::Schema => vec![Schema("create".to_owned()).to_json()],
        Request::Check => vec![Finding::all_to_json(&[finding(Grade::Good)])],
    }
}

fn finding(grade: Grade) -> Finding {
    Finding { grade, subject: "disk".to_owned(), text: "is there".to_owned(), advice: Some("buy one".to_owned()) }
}

fn error(class: Class) -> StoreError {
    StoreError { error: "no".to_owned(), class, sent: true, hint: Some("wait".to_owned()), login_refused: true }
}

/// Returns the words of all grades, and of all classes.
fn enumerations() -> [BTreeSet<String>; 2] {
    let grades = [Grade::Good, Grade::Unwise, Grade::Bad].map(|grade| match grade {
        Grade::Good | Grade::Unwise | Grade::Bad => {
            Finding::all_to_json(&[finding(grade)])["findings"][0]["grade"].as_str().unwrap().to_owned()
        }
    });
    let classes = [Class::Transient, Class::Overloaded, Class::Permanent].map(|class| match class {
        Class::Transient | Class::Overloaded | Class::Permanent => {
            error(class).to_json()["class"].as_str().unwrap().to_owned()
        }
    });
    [grades.into(), classes.into()]
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

fn op(request: &Value) -> String {
    request["op"].as_str().unwrap().to_owned()
}

/// Returns the fields of a request without its name.
fn fields(request: &Request) -> BTreeSet<String> {
    keys(&request.to_json()).into_iter().filter(|key| key != "op").collect()
}

/// Returns the fields of all lines that may answer a request, with those of the objects in a list of findings.
fn answer_fields(request: &Request) -> BTreeSet<String> {
    let lines = answers(request);
    let findings = lines.iter().filter_map(|line| line["findings"].get(0)).flat_map(keys);
    lines.iter().flat_map(keys).chain(findings).collect()
}

/// Returns what stands between backticks in a text, but for what stands in brackets.
fn named(text: &str) -> BTreeSet<String> {
    let outside: String = text.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
    quoted(&outside)
}

/// Returns what stands between backticks and is a word.
fn quoted(text: &str) -> BTreeSet<String> {
    let is_word = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
    text.split('`').skip(1).step_by(2).filter(is_word).map(str::to_owned).collect()
}

/// Returns what stands in brackets after a word.
fn in_brackets(text: &str, word: &str) -> BTreeSet<String> {
    let (_, rest) = text.split_once(&format!("`{word}` (")).unwrap();
    quoted(rest.split_once(')').unwrap().0)
}

/// Returns the rows of all tables by what their first cell has between backticks.
fn rows(page: &str) -> BTreeMap<String, Vec<String>> {
    let tables = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = tables.map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<_>>());
    cells.map(|cells| (cells[0].trim_matches('`').trim().to_owned(), cells)).collect()
}

#[test]
fn the_tables_have_the_fields_of_the_types() {
    let page = text("docs/providers.md");
    // An empty cell has no blank within.
    let rows = rows(&page.replace("| |", "|  |"));
    let mut known = BTreeSet::from(["op", "---", "any", "of", "RECORD", "RUN"].map(str::to_owned));
    for request in requests() {
        let name = op(&request.to_json());
        let row = &rows[&name];
        assert_eq!(named(&row[1]), fields(&request), "the request {name}");
        assert_eq!(named(&row[2]), answer_fields(&request), "the answer to {name}");
        known.insert(name);
    }
    assert_eq!(named(&rows["any"][2]), keys(&error(Class::Permanent).to_json()), "an error");
    assert_eq!(named(&rows["RECORD"][1]), keys(&record().to_json()), "a record");
    assert_eq!(named(&rows["RUN"][1]), keys(&record().to_json()["runs"][0]), "a run");
    let [grades, classes] = enumerations();
    assert_eq!(in_brackets(&rows["check"][2], "grade"), grades);
    assert_eq!(in_brackets(&rows["any"][2], "class"), classes);
    assert_eq!(rows.into_keys().collect::<BTreeSet<_>>(), known, "no row is of something else");
}

#[test]
fn the_manual_has_the_fields_of_the_types() {
    let page = text("src/generate/shedlock-provider.7.md");
    let section = |name: &str| {
        let (_, rest) = page.split_once(&format!("\n# {name}\n")).unwrap();
        rest.split("\n# ").next().unwrap().to_owned()
    };
    /// Returns heads and texts of a list of definitions.
    fn definitions(section: &str) -> Vec<(&str, &str)> {
        section.split("\n\n").filter_map(|part| part.trim().split_once("\n: ")).collect()
    }
    let heads = |section: &str| -> BTreeSet<String> {
        definitions(section).iter().flat_map(|(head, _)| quoted(head)).collect()
    };
    let about = section("REQUESTS");
    let described = definitions(&about);
    assert_eq!(described.len(), requests().len());
    for request in requests() {
        let name = op(&request.to_json());
        let (head, text) = described.iter().find(|(head, _)| head.starts_with(&format!("`{name}`"))).unwrap();
        let mut expected = fields(&request);
        expected.insert(name.clone());
        assert_eq!(quoted(head), expected, "the request {name}");
        let (_, answer) = text.split_once("nswer: ").unwrap();
        let missing: Vec<_> = answer_fields(&request).difference(&quoted(answer)).cloned().collect();
        assert!(missing.is_empty(), "the answer to {name} has {missing:?}");
    }
    assert_eq!(heads(&section("ERRORS")), keys(&error(Class::Permanent).to_json()));
    assert_eq!(heads(&section("RECORD")), keys(&record().to_json()));
    let of_record = section("RECORD");
    let runs = of_record.split_once("`runs`\n").unwrap().1;
    assert_eq!(quoted(runs), keys(&record().to_json()["runs"][0]), "a run");
    let [grades, classes] = enumerations();
    assert!(grades.is_subset(&quoted(&about)), "{grades:?}");
    assert!(classes.is_subset(&quoted(&section("ERRORS"))), "{classes:?}");
}

/// Says a request, or one line of the answer to the last one.
enum Said {
    Request(Value),
    Answer(Value),
}

/// Returns what the page has recorded.
fn conversation() -> Vec<Said> {
    let page = text("docs/providers.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let block = rest.split_once("\n```").unwrap().0;
    let said = block.lines().map(|line| match line.split_at(2) {
        ("> ", request) => Said::Request(serde_json::from_str(request).unwrap()),
        ("< ", answer) => Said::Answer(serde_json::from_str(answer).unwrap()),
        _ => panic!("neither said nor heard: {line}"),
    });
    said.collect()
}

/// Reads an answer to a request, and writes it again.
fn written_again(request: &Request, answer: &Value) -> Value {
    if let Some(error) = StoreError::from_json(answer).unwrap() {
        return error.to_json();
    }
    match request {
        Request::Open(_) => Opened::from_json(answer).unwrap().to_json(),
        Request::Read { .. } => Reading::from_json(answer).unwrap().to_json(),
        Request::Write { .. } => Written::from_json(answer).unwrap().to_json(),
        Request::Remove { .. } => Removed::from_json(answer).unwrap().to_json(),
        Request::List => Item::from_json(answer).unwrap().to_json(),
        Request::Make => Made::from_json(answer).unwrap().to_json(),
        Request::Schema => Schema::from_json(answer).unwrap().to_json(),
        Request::Check => {
            // Of findings, only all together are read.
            let [one] = answer["findings"].as_array().unwrap().as_slice() else { panic!("one finding is enough") };
            assert_eq!(keys(one), keys(&Finding::all_to_json(&[finding(Grade::Good)])["findings"][0]));
            Finding::all_to_json(&Finding::all_from_json(answer).unwrap())
        }
    }
}

#[test]
fn each_line_of_the_conversation_has_just_the_fields_of_its_type() {
    let (mut last, mut said) = (None, BTreeSet::new());
    for line in conversation() {
        match line {
            Said::Request(value) => {
                last = Request::from_json(&value).ok();
                match &last {
                    Some(request) => assert_eq!(request.to_json(), value),
                    None => assert!(!requests().iter().any(|request| op(&request.to_json()) == op(&value)), "{value}"),
                }
                said.insert(op(&value));
            }
            Said::Answer(value) => match &last {
                Some(request) => assert_eq!(written_again(request, &value), value),
                None => assert_eq!(StoreError::from_json(&value).unwrap().unwrap().to_json(), value),
            },
        }
    }
    let missing: Vec<_> =
        requests().iter().map(|request| op(&request.to_json())).filter(|op| !said.contains(op)).collect();
    assert!(missing.is_empty(), "there is none of {missing:?}");
}

/// Says what differs between two times of the same conversation.
#[derive(Default)]
struct Differences {
    /// The version in the document, and that of today.
    versions: Vec<(String, String)>,
    path: String,
}

impl Differences {
    /// Returns what is to be said today.
    fn translated(&self, value: &Value) -> Value {
        let mut text = value.to_string().replace("/tmp/locks", &self.path);
        for (then, today) in &self.versions {
            text = text.replace(then, today);
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Returns whether an answer of today is the one in the document, but for time, versions and the directory.
    fn is_same(&mut self, then: &Value, today: &Value) -> bool {
        if let (Some(then), Some(today)) = (then["version"].as_str(), today["version"].as_str()) {
            self.versions.push((then.to_owned(), today.to_owned()));
        }
        let mut then = self.translated(then);
        for time in ["now", "floor"] {
            if let (Some(then), Some(today)) = (then.get_mut(time), today.get(time)) {
                assert!(today.is_u64());
                *then = today.clone();
            }
        }
        then == *today
    }
}

#[test]
fn the_conversation_is_had_again_with_the_example() {
    let directory = std::env::temp_dir().join(format!("shedlock-conversation-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let mut differences = Differences { path: directory.display().to_string(), ..Differences::default() };
    let program = file("providers/example/shedlock-provider-example");
    let mut example = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut requests, mut answers) =
        (example.stdin.take().unwrap(), BufReader::new(example.stdout.take().unwrap()).lines());
    for line in conversation() {
        match line {
            Said::Request(request) => writeln!(requests, "{}", differences.translated(&request)).unwrap(),
            Said::Answer(then) => {
                let today: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
                assert!(differences.is_same(&then, &today), "the page: {then}\nthe example: {today}");
            }
        }
    }
    drop(requests);
    assert!(answers.next().is_none(), "it says more");
    assert!(example.wait().unwrap().success());
    fs::remove_dir_all(directory).unwrap();
}
