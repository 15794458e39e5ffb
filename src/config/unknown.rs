//! Checks variables that begin like those of shedlock and set nothing. A name that resembles an option's is a mistake:
//! `SHEDLOCK_BACKND` would silently give every host a lock file of its own.

use super::Mistake;
use crate::cli::{OPTIONS, Opt};
use crate::suggest::{did_you_mean, nearest_variable};

/// The prefix of the variables of options.
pub(super) const PREFIX: &str = "SHEDLOCK_";

/// The prefix of the variables that tell a job about its lock.
const JOB_PREFIX: &str = "SHEDLOCK_LOCK_";

/// The variable with the password for a backend whose URL has none. There is no such option, because every user can read
/// command lines.
pub(super) const PASSWORD_VARIABLE: &str = "SHEDLOCK_BACKEND_PASSWORD";

/// Returns the name of a variable that sets nothing, for the listing; `None` for a variable of shedlock. A name that resembles an
/// option's is a mistake.
pub(super) fn check_name(name: &str) -> Result<Option<String>, Mistake> {
    if name == PASSWORD_VARIABLE || name.starts_with(JOB_PREFIX) {
        return Ok(None);
    }
    // POSIX leaves lower-case names to applications.
    let known = match name.strip_prefix(PREFIX) {
        Some(word) if !is_kubernetes_service(name) => nearest_option(word),
        _ => None,
    };
    match known {
        Some(known) => Err(Mistake::new(format!("unknown variable `{name}`"))
            .hint(format!("{} if it is not meant for shedlock, rename it", did_you_mean(&known)))),
        None => Ok(Some(name.to_owned())),
    }
}

/// Returns whether Kubernetes sets a variable of this form for a service, such as `shedlock-backend`.
pub(crate) fn is_kubernetes_service(name: &str) -> bool {
    let of_a_port = |port: &str| {
        let mut words = port.split('_');
        let number = words.next().is_some_and(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()));
        let protocol = words.next().is_some_and(|word| matches!(word, "TCP" | "UDP" | "SCTP"));
        number && protocol && matches!((words.next(), words.next()), (None | Some("PROTO" | "ADDR"), None))
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_PORT")
        || name.contains("_SERVICE_PORT_")
        || name.rsplit_once("_PORT_").is_some_and(|(_, port)| of_a_port(port))
}

/// Returns the variable of an option, or of the password, that was probably meant by the rest of a name after the prefix.
fn nearest_option(word: &str) -> Option<String> {
    let variables = OPTIONS.iter().map(Opt::variable).chain([PASSWORD_VARIABLE.to_owned()]);
    let known: Vec<String> = variables.filter_map(|known| known.strip_prefix(PREFIX).map(str::to_owned)).collect();
    nearest_variable(word, &known).map(|known| format!("{PREFIX}{known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(name: &str) -> Option<String> {
        let hint = check_name(name).err()?.hint?;
        hint.split('`').nth(1).map(str::to_owned)
    }

    #[test]
    fn a_name_that_is_almost_an_options_or_has_more_behind_it_is_a_slip() {
        for (typed, known) in [
            ("SHEDLOCK_BACKND", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_BAKCEDN", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_BACKEND_URL", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_BACKENDURL", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_BACKEND_", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_BACKEND_FIEL", "SHEDLOCK_BACKEND_FILE"),
            ("SHEDLOCK_BACKEND_FILE_PATH", "SHEDLOCK_BACKEND_FILE"),
            ("SHEDLOCK_BACKEND_PASSWD", "SHEDLOCK_BACKEND_PASSWORD"),
            ("SHEDLOCK_backend", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_AT-MOST", "SHEDLOCK_AT_MOST"),
            ("SHEDLOCK_ATMOST", "SHEDLOCK_AT_MOST"),
            ("SHEDLOCK_NMAE", "SHEDLOCK_NAME"),
            ("SHEDLOCK_NAM", "SHEDLOCK_NAME"),
            ("SHEDLOCK_NAME_", "SHEDLOCK_NAME"),
            ("SHEDLOCK_NAME_PREFIX", "SHEDLOCK_NAME"),
            ("SHEDLOCK_LEASES", "SHEDLOCK_LEASE"),
            ("SHEDLOCK_LEAST", "SHEDLOCK_LEASE"),
            ("SHEDLOCK_WAIT_FRO", "SHEDLOCK_WAIT_FOR"),
            ("SHEDLOCK_CONF", "SHEDLOCK_CONFIG"),
            ("SHEDLOCK_SIGNALS", "SHEDLOCK_SIGNAL"),
            ("SHEDLOCK_CONFIG_FILE", "SHEDLOCK_CONFIG"),
            ("SHEDLOCK_BACK\u{fffd}ND", "SHEDLOCK_BACKEND"),
        ] {
            assert_eq!(meant(typed).as_deref(), Some(known), "{typed}");
        }
    }

    #[test]
    fn other_names_are_listed_and_those_of_the_lock_are_ours() {
        for other in [
            "SHEDLOCK_",
            "SHEDLOCK_URL",
            "SHEDLOCK_BACKUP",
            "SHEDLOCK_VERSION",
            "SHEDLOCK_BLESS",
            "SHEDLOCK_CHECKER_INSIDE",
            // Near to a short one, which words of other meanings are
            "SHEDLOCK_HOME",
            "SHEDLOCK_DATE",
            "SHEDLOCK_MODE",
            "SHEDLOCK_NODE",
            "SHEDLOCK_NM",
            "SHEDLOCK_RELEASE",
            "SHEDLOCK_RELAY",
            // Longer than a short one, without a `_` between
            "SHEDLOCK_NAMESPACE",
            "SHEDLOCK_WAITING",
            "SHEDLOCK_LEASEHOLDER",
            "SHEDLOCK_EVERYWHERE",
            // What a command is told of a run that has ended
            "SHEDLOCK_EVENT",
            "SHEDLOCK_EXIT_CODE",
            "SHEDLOCK_DURATION",
            "SHEDLOCK_MESSAGE",
            "shedlock_name",
        ] {
            assert_eq!(check_name(other), Ok(Some(other.to_owned())));
        }
        for ours in
            ["SHEDLOCK_LOCK_NAME", "SHEDLOCK_LOCK_BACKEND_PASSWORD", "SHEDLOCK_LOCK_OF_TOMORROW", PASSWORD_VARIABLE]
        {
            assert_eq!(check_name(ours), Ok(None));
        }
    }

    #[test]
    fn what_kubernetes_makes_for_a_service_of_any_name_is_no_slip() {
        let services = OPTIONS.iter().map(Opt::variable).chain(["SHEDLOCK".to_owned()]);
        for service in services {
            for end in [
                "_SERVICE_HOST",
                "_SERVICE_PORT",
                "_SERVICE_PORT_HTTP",
                "_SERVICE_PORT_WEB_2",
                "_PORT",
                "_PORT_5432_TCP",
                "_PORT_5432_TCP_PROTO",
                "_PORT_5432_TCP_PORT",
                "_PORT_5432_TCP_ADDR",
                "_PORT_53_UDP_ADDR",
                "_PORT_9_SCTP",
            ] {
                let name = format!("{service}{end}");
                assert_eq!(check_name(&name), Ok(Some(name.clone())));
            }
            // None of them can be an option's.
            assert!(!is_kubernetes_service(&service), "{service}");
        }
        for slip in [
            "SHEDLOCK_BACKEND_HOST",
            "SHEDLOCK_BACKEND_PORT_",
            "SHEDLOCK_BACKEND_PORT_TCP",
            "SHEDLOCK_BACKEND_PORT_1_TCP_X",
        ] {
            assert!(check_name(slip).is_err(), "{slip}");
        }
    }
}
