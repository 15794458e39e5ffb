//! The job's environment: shedlock's own, byte by byte, with the lock's variables in it.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

#[expect(unsafe_code, reason = "the bindings do not have it for every C library")]
unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The environment variables of a process, in the form of execve(2): entries that no `=` is in, or that come twice, are kept as
/// they are.
pub(crate) struct Environment(Vec<CString>);

impl Environment {
    /// Copies shedlock's own environment.
    pub(crate) fn inherited() -> Self {
        #[expect(unsafe_code, reason = "std drops entries without `=` and reorders the rest")]
        // SAFETY: nothing in this program changes the environment, and the main thread reads it only here.
        let mut entry = unsafe { environ };
        let mut entries = Vec::new();
        while !entry.is_null() {
            #[expect(unsafe_code, reason = "see above")]
            // SAFETY: the array ends with a null pointer, where the loop below stops.
            let text = unsafe { *entry };
            if text.is_null() {
                break;
            }
            #[expect(unsafe_code, reason = "see above")]
            // SAFETY: every entry before the null pointer is a C string.
            entries.push(unsafe { CStr::from_ptr(text) }.to_owned());
            #[expect(unsafe_code, reason = "see above")]
            // SAFETY: the null pointer was not met yet, so one more entry is in the array.
            let next = unsafe { entry.add(1) };
            entry = next;
        }
        Self(entries)
    }

    /// Returns a variable's value.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.iter().find_map(|entry| value_of(entry, name)).map(OsStr::from_bytes)
    }

    /// Removes a variable.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|entry| value_of(entry, name).is_none());
    }

    /// Sets a variable. A value with a NUL byte, which no variable can have, is left out.
    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.remove(name);
        self.0.extend(CString::new([name.as_bytes(), b"=", value.as_ref().as_bytes()].concat()));
    }

    pub(crate) fn entries(&self) -> &[CString] {
        &self.0
    }
}

fn value_of<'a>(entry: &'a CStr, name: &str) -> Option<&'a [u8]> {
    entry.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_set_replaces_all_of_its_name() {
        let entry = |text: &str| CString::new(text).unwrap();
        let mut environment = Environment(vec![entry("A=1"), entry("odd"), entry("A=2"), entry("AB=3")]);
        environment.set("A", "4");
        assert_eq!(environment.0, [entry("odd"), entry("AB=3"), entry("A=4")]);
        assert_eq!(environment.get("AB"), Some(OsStr::new("3")));
        assert_eq!(environment.get("odd"), None);
    }
}
