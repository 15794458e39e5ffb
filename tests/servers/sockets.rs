//! The connections that the program has to a server which cannot tell them apart itself, and the programs that it has instead.

use std::fs;

/// How many connections to this port the processes have that have a name in their command line or environment: a store's,
/// in its URL.
pub(crate) fn connections(port: u16, name: &str) -> usize {
    let (sockets, name) = (sockets_to(port), name.as_bytes());
    let mut count = 0;
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let has_name = |file: &str| {
            let text = fs::read(process.path().join(file)).unwrap_or_default();
            text.windows(name.len()).any(|part| part == name)
        };
        if has_name("environ") || has_name("cmdline") {
            let descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
            let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
            count += targets.filter(|target| sockets.iter().any(|socket| target.as_os_str() == &**socket)).count();
        }
    }
    count
}

/// How many processes run this program, or any if it has no name, and have this text in their environment: a store's URL.
pub fn processes_with(program: &str, text: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let has = |file: &std::path::Path, part: &str| {
        let all = fs::read(file).unwrap_or_default();
        part.is_empty() || all.windows(part.len()).any(|window| window == part.as_bytes())
    };
    processes.filter(|path| has(&path.join("cmdline"), program) && has(&path.join("environ"), text)).count()
}

/// What /proc calls the sockets of this host that are connected to a port.
fn sockets_to(port: u16) -> Vec<String> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_ours = |fields: &Vec<&str>| fields[2].ends_with(&format!(":{port:04X}")) && fields[9] != "0";
    lines.filter(is_ours).map(|fields| format!("socket:[{}]", fields[9])).collect()
}
