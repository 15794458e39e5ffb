//! The rule of imports, as a test: from top to bottom only, and no files in a circle. Read from the text of src/.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rooms from top to bottom. A file may import its own room and those below it.
const ROOMS: &[&str] = &[
    "main",
    "lib",
    "fuzzing",
    "generate",
    "command",
    "supervise",
    "config",
    "report",
    "cli",
    "variables",
    "job",
    "run",
    "prove",
    "backend",
    "lock",
    "exit",
    "system",
    "duration",
    "suggest",
    "text",
];
/// Pairs of rooms of which neither imports the other, although one stands above.
const STRANGERS: &[(&str, &str)] = &[("run", "backend"), ("report", "job"), ("job", "backend"), ("cli", "run")];

/// The path of a module, such as `backend::net::url`; empty for `lib.rs`.
type Module = Vec<String>;

/// Source files by module, without comments and without the tests at their ends.
struct Sources {
    texts: BTreeMap<Module, String>,
    /// What a module passes on under its own path: the name, and the path that it stands for.
    passed_on: BTreeMap<(Module, String), Vec<String>>,
}

impl Sources {
    fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let texts = files.into_iter().map(|(file, text)| (module(&file), without_tests(&text))).collect();
        let mut sources = Self { texts, passed_on: BTreeMap::new() };
        let public = |(module, text): (&Module, &String)| {
            let paths = uses(text).filter(|(is_public, _)| *is_public);
            let paths = paths.filter_map(|(_, path)| sources.absolute(module, &path));
            let named = paths.map(|path| ((module.clone(), path.last().cloned().unwrap_or_default()), path));
            named.collect::<Vec<_>>()
        };
        sources.passed_on = sources.texts.iter().flat_map(public).collect();
        sources
    }

    /// Reads all of src/.
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![root.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else if entry.extension().is_some_and(|extension| extension == "rs") && !entry.ends_with("imports.rs")
                {
                    let name = entry.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                    files.push((name, std::fs::read_to_string(&entry).unwrap()));
                }
            }
        }
        Self::new(files)
    }

    /// Returns the path from the root of the crate; `None` for another crate's.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([&module[..module.len().checked_sub(supers)?], &path[supers..]].concat()),
            child => {
                let inside = [module.as_slice(), &[child.to_owned()]].concat();
                self.texts.contains_key(&inside).then(|| [module, path].concat())
            }
        }
    }

    /// Returns the module that defines what a path from the root leads to, however often it is passed on.
    fn definer(&self, path: &[String]) -> Module {
        let depth = (0..=path.len()).rev().find(|depth| self.texts.contains_key(&path[..*depth])).unwrap_or_default();
        let passed_on = path.get(depth).and_then(|name| self.passed_on.get(&(path[..depth].to_vec(), name.clone())));
        match passed_on {
            Some(other) if other != path => self.definer(&[other, &path[depth + 1..]].concat()),
            _ => path[..depth].to_vec(),
        }
    }

    /// Returns the modules that each module imports. One that only passes a name on does not import it.
    fn imports(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let of = |module: &Module, text: &String| {
            let body: String = text
                .split("use ")
                .enumerate()
                .map(|(n, part)| match n {
                    0 => part,
                    _ => part.split_once(';').map_or("", |(_, rest)| rest),
                })
                .collect();
            let is_used = |name: &str| body.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
            let named =
                uses(text).filter(|(is_public, path)| !is_public || path.last().is_some_and(|name| is_used(name)));
            let written = paths(&body).into_iter();
            let all = named.map(|(_, path)| path).chain(written).filter_map(|path| self.absolute(module, &path));
            all.map(|path| self.definer(&path)).filter(|other| other != module).collect()
        };
        self.texts.iter().map(|(module, text)| (module, of(module, text))).collect()
    }

    /// Returns a line for each import that climbs.
    fn climbs(&self) -> Vec<String> {
        let rank = |room: &str| ROOMS.iter().position(|one| *one == room);
        let mut found = Vec::new();
        for (from, to) in self.imports().iter().flat_map(|(from, all)| all.iter().map(move |to| (*from, to))) {
            let (above, below) = (room(from), room(to));
            let is_down = rank(above).zip(rank(below)).is_some_and(|(above, below)| above <= below);
            let strangers = STRANGERS.contains(&(above, below)) || STRANGERS.contains(&(below, above));
            if !is_down || strangers {
                found.push(format!("{} imports {}", from.join("::"), to.join("::")));
            }
        }
        found
    }

    /// Returns a line for each circle of files: the shortest through each of its files.
    fn circles(&self) -> BTreeSet<String> {
        let imports = self.imports();
        let shortest = |start: &Module| {
            let mut reached = BTreeSet::new();
            let mut ways = vec![vec![start.clone()]];
            while !ways.is_empty() {
                let next = ways.iter().flat_map(|way| {
                    let last = way.last().map(|last| &imports[last]);
                    last.into_iter().flatten().map(move |to| [way.as_slice(), std::slice::from_ref(to)].concat())
                });
                let next: Vec<Vec<Module>> = next.collect();
                if let Some(circle) = next.iter().find(|way| way.last() == Some(start)) {
                    return Some(circle.clone());
                }
                ways = next
                    .into_iter()
                    .filter(|way| way.last().is_some_and(|last| reached.insert(last.clone())))
                    .collect();
            }
            None
        };
        self.texts
            .keys()
            .filter_map(shortest)
            .map(|circle| {
                let mut names: Vec<String> = circle.iter().skip(1).map(|module| module.join("::")).collect();
                names.sort();
                names.join(" <-> ")
            })
            .collect()
    }
}

/// Returns the room of a module: its first folder or file.
fn room(module: &Module) -> &str {
    module.first().map_or("lib", String::as_str)
}

/// Returns the module of a file below src/.
fn module(file: &str) -> Module {
    let name = file.trim_end_matches(".rs").trim_end_matches("/mod");
    name.split('/').filter(|part| *part != "lib").map(str::to_owned).collect()
}

/// Returns the text without comments, and without the module of tests at its end, which may look anywhere.
fn without_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let is_test = |line: &str| line.starts_with("#[cfg(") && line.contains("test");
    let starts = |line: &str| line.trim_start_matches("pub(crate) ").starts_with("mod ") && line.ends_with('{');
    let tests = (0..lines.len()).find(|n| {
        is_test(lines[*n]) && lines[n + 1..].iter().find(|line| !line.starts_with('#')).is_some_and(|line| starts(line))
    });
    lines[..tests.unwrap_or(lines.len())].join("\n")
}

/// Returns each path that the text names in a `use`, and whether it is passed on.
fn uses(text: &str) -> impl Iterator<Item = (bool, Vec<String>)> {
    let starts = text.match_indices("use ").filter(|(place, _)| {
        let before = text[..*place].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || before.starts_with("pub")
    });
    starts.flat_map(|(place, word)| {
        let before = text[..place].rsplit('\n').next().unwrap_or_default().trim();
        let tree = text[place + word.len()..].split(';').next().unwrap_or_default();
        leaves(tree).into_iter().map(move |path| (before.starts_with("pub"), path))
    })
}

/// Returns the paths of a tree such as `a::{b, c::{d, e}}`.
fn leaves(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let parts = |text: &str| -> Vec<String> {
        let text = text.split(" as ").next().unwrap_or_default();
        text.split("::").map(str::trim).filter(|part| !part.is_empty() && *part != "*").map(str::to_owned).collect()
    };
    let Some((before, rest)) = tree.split_once('{') else { return vec![parts(tree)] };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let mut depth = 0;
    let branches = inside.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let branches = branches.filter(|branch| !branch.trim().is_empty()).flat_map(leaves);
    branches
        .map(|leaf| {
            let leaf = if leaf == ["self"] { Vec::new() } else { leaf };
            [parts(before), leaf].concat()
        })
        .collect()
}

/// Returns the paths from the root, or from the module above, that are written out in the text.
fn paths(text: &str) -> Vec<Vec<String>> {
    let words = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':' | '$'));
    let paths = words.map(|word| word.trim_end_matches(':'));
    let ours = paths.filter(|path| path.starts_with("crate::") || path.starts_with("super::"));
    ours.map(|path| path.split("::").map(str::to_owned).collect()).collect()
}

#[test]
fn imports_go_down_only_and_no_files_import_each_other() {
    let sources = Sources::read();
    assert!(sources.texts.len() > 100, "src/ has more files than {}", sources.texts.len());
    assert_eq!((sources.climbs(), sources.circles()), (Vec::new(), BTreeSet::new()));
}

#[test]
fn an_import_that_climbs_is_found_also_through_a_module_that_passes_it_on() {
    let files = [
        ("lib.rs", "mod lock;\nmod run;\n"),
        ("lock/mod.rs", "pub(crate) use name::Name;\nmod name;\n"),
        ("lock/name.rs", "use crate::run::{Run, event::{self, Event}};\n"),
        ("run/mod.rs", "use crate::lock::Name;\npub(crate) mod event;\n"),
        ("run/event.rs", ""),
        (
            "backend/mod.rs",
            "fn open() -> crate::run::Run {}\n#[cfg(test)]\nmod tests {\n    use crate::command::X;\n}\n",
        ),
    ];
    let sources = Sources::new(files.map(|(file, text)| (file.to_owned(), text.to_owned())));
    let climbs = ["backend imports run", "lock::name imports run", "lock::name imports run::event"];
    assert_eq!(sources.climbs(), climbs);
    assert_eq!(sources.circles().into_iter().collect::<Vec<_>>(), ["lock::name <-> run"]);
}
