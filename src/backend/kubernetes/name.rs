//! The name of a lock's Lease, which has to be a DNS name: up to 253 lower-case letters, digits, `-` and `.`.

/// Begins the name of a Lease in which each other byte is written as `-` and two hexadecimal digits.
const WRITTEN: &str = "lock--";
/// Begins the name of a Lease that would be too long that way: all the characters make one number, in base 36.
const PACKED: &str = "l---";
const LONGEST: usize = 253;
/// Each character counts as a digit of this base.
const CHARACTERS: u32 = 0x11_0000;

/// Returns the name of the Lease for a lock. Different locks have different Leases.
pub(super) fn of_lock(lock: &str) -> String {
    if is_dns_name(lock) && !lock.starts_with(WRITTEN) && !lock.starts_with(PACKED) {
        return lock.to_owned();
    }
    let written = written(lock);
    if written.len() <= LONGEST { written } else { packed(lock) }
}

/// Returns the name of the lock that has this Lease. `noted` is what the Lease says of itself, and counts if it is true.
pub(super) fn of_lease(lease: &str, noted: Option<&str>) -> String {
    noted.filter(|noted| of_lock(noted) == lease).unwrap_or(lease).to_owned()
}

fn is_dns_name(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part =
        |part: &str| part.starts_with(is_end) && part.ends_with(is_end) && part.chars().all(|c| is_end(c) || c == '-');
    text.len() <= LONGEST && text.split('.').all(is_part)
}

fn written(lock: &str) -> String {
    let bytes = lock.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("-{byte:02x}"),
    });
    WRITTEN.to_owned() + &bytes.collect::<String>()
}

/// The 64 characters of the longest name have 249 digits.
fn packed(lock: &str) -> String {
    // The smallest digit comes first.
    let mut digits: Vec<u32> = Vec::new();
    for character in lock.chars() {
        let mut carry = u32::from(character);
        for digit in &mut digits {
            carry += *digit * CHARACTERS;
            *digit = carry % 36;
            carry /= 36;
        }
        while carry > 0 {
            digits.push(carry % 36);
            carry /= 36;
        }
    }
    let digits = digits.iter().rev().filter_map(|digit| char::from_digit(*digit, 36));
    PACKED.to_owned() + &digits.collect::<String>()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::lock::LockName;

    #[test]
    fn a_dns_name_is_the_lease_s_name() {
        for name in ["job", "nightly-report", "a", "1", "db.backup.example", "lock-", "x".repeat(64).as_str()] {
            let itself = name != "lock-";
            assert_eq!(of_lock(name) == name, itself, "{name}");
        }
    }

    #[test]
    fn other_names_are_written_in_letters_that_a_lease_may_have() {
        for (lock, lease) in [
            ("Nightly Report", "lock---4eightly-20-52eport"),
            ("job_", "lock--job-5f"),
            ("a..b", "lock--a-2e-2eb"),
            ("-v", "lock---2dv"),
            ("ß", "lock---c3-9f"),
            // Names that look like those of Leases.
            ("lock--job-5f", "lock--lock-2d-2djob-2d5f"),
            ("l---0", "lock--l-2d-2d-2d0"),
        ] {
            assert_eq!(of_lock(lock), lease);
        }
    }

    #[test]
    fn the_longest_name_fits() {
        let last = char::MAX.to_string().repeat(64);
        assert_eq!(of_lock(&last).len(), LONGEST);
        assert!(of_lock(&"日".repeat(64)).starts_with(PACKED));
        assert!(is_dns_name(&of_lock(&last)));
    }

    #[test]
    fn a_lease_says_which_lock_it_is_if_that_is_true() {
        assert_eq!(of_lease("lock--job-5f", Some("job_")), "job_");
        assert_eq!(of_lease("lock--job-5f", None), "lock--job-5f");
        assert_eq!(of_lease("job", Some("other")), "job");
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_names_have_leases_of_their_own(
            names in proptest::collection::hash_set("[a-c.\\-A l]{1,5}|lock--[a-c-]{1,8}|[日🦀x]{60,64}|\\PC{1,64}", 2..50)
        ) {
            let names: HashSet<_> = names.into_iter().filter(|name| LockName::new(name).is_ok()).collect();
            let leases: HashSet<_> = names.iter().map(|name| of_lock(name)).collect();
            prop_assert_eq!(names.len(), leases.len());
            for lease in leases {
                prop_assert!(is_dns_name(&lease), "{}", lease);
            }
        }
    }
}
