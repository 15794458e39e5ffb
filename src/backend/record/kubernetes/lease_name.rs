//! The name of a lock's Lease, which has to be a DNS name: up to 253 lower-case letters, digits, `-` and `.`.

/// Begins the name of a Lease in which each other byte is written as `-` and two hexadecimal digits.
const ESCAPED_PREFIX: &str = "lock--";
/// Begins the name of a Lease that would be too long that way: all the characters make one number, in base 36.
const PACKED_PREFIX: &str = "l---";
const MAX_NAME: usize = 253;
/// Each character counts as a digit of this base.
const CHARACTER_BASE: u32 = 0x11_0000;

/// Returns the name of the Lease for a lock. Different locks have different Leases.
pub(crate) fn lease_name(lock: &str) -> String {
    if is_dns_name(lock) && !lock.starts_with(ESCAPED_PREFIX) && !lock.starts_with(PACKED_PREFIX) {
        return lock.to_owned();
    }
    let escaped = escaped(lock);
    if escaped.len() <= MAX_NAME { escaped } else { packed(lock) }
}

/// Returns the name of the lock that has this Lease. `annotated_name` is the name in the Lease's annotation,
/// and counts if it leads to this Lease.
pub(crate) fn lock_name(lease: &str, annotated_name: Option<&str>) -> String {
    annotated_name.filter(|annotated_name| lease_name(annotated_name) == lease).unwrap_or(lease).to_owned()
}

fn is_dns_name(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part =
        |part: &str| part.starts_with(is_end) && part.ends_with(is_end) && part.chars().all(|c| is_end(c) || c == '-');
    text.len() <= MAX_NAME && text.split('.').all(is_part)
}

fn escaped(lock: &str) -> String {
    let bytes = lock.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("-{byte:02x}"),
    });
    ESCAPED_PREFIX.to_owned() + &bytes.collect::<String>()
}

/// Writes all characters of a name as one number in base 36. The 64 characters of the longest name have 249 digits.
fn packed(lock: &str) -> String {
    // The smallest digit comes first.
    let mut digits: Vec<u32> = Vec::new();
    for character in lock.chars() {
        let mut carry = u32::from(character);
        for digit in &mut digits {
            carry += *digit * CHARACTER_BASE;
            *digit = carry % 36;
            carry /= 36;
        }
        while carry > 0 {
            digits.push(carry % 36);
            carry /= 36;
        }
    }
    let digits = digits.iter().rev().filter_map(|digit| char::from_digit(*digit, 36));
    PACKED_PREFIX.to_owned() + &digits.collect::<String>()
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
            assert_eq!(lease_name(name) == name, itself, "{name}");
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
            assert_eq!(lease_name(lock), lease);
        }
    }

    #[test]
    fn the_longest_name_fits() {
        let last = char::MAX.to_string().repeat(64);
        assert_eq!(lease_name(&last).len(), MAX_NAME);
        assert!(lease_name(&"日".repeat(64)).starts_with(PACKED_PREFIX));
        assert!(is_dns_name(&lease_name(&last)));
    }

    #[test]
    fn a_lease_says_which_lock_it_is_if_that_is_true() {
        assert_eq!(lock_name("lock--job-5f", Some("job_")), "job_");
        assert_eq!(lock_name("lock--job-5f", None), "lock--job-5f");
        assert_eq!(lock_name("job", Some("other")), "job");
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_names_have_leases_of_their_own(
            names in proptest::collection::hash_set("[a-c.\\-A l]{1,5}|lock--[a-c-]{1,8}|[日🦀x]{60,64}|\\PC{1,64}", 2..50)
        ) {
            let names: HashSet<_> = names.into_iter().filter(|name| LockName::new(name).is_ok()).collect();
            let leases: HashSet<_> = names.iter().map(|name| lease_name(name)).collect();
            prop_assert_eq!(names.len(), leases.len());
            for lease in leases {
                prop_assert!(is_dns_name(&lease), "{}", lease);
            }
        }
    }
}
