//! Keeps a static program from loading shared libraries when it looks up names.

/// Has the C library look names up in /etc/hosts and by DNS only, which is in the program. What else /etc/nsswitch.conf may
/// name are shared libraries; a statically linked program would load them into itself together with another C library, made
/// for another version than its own, and may crash.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
#[expect(unsafe_code, reason = "a function of the C library that nothing wraps")]
pub(crate) fn without_modules() {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: it is declared as in nss.h, gets two strings that end with a zero byte and that it only reads, and is
        // called once, before the first lookup.
        unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    });
}

#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub(crate) fn without_modules() {}
