//! What the processes that the tests start do on signals, whatever the shell or nohup(1) had the tests ignore.

use std::sync::Once;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Gives every signal that this process was told to ignore its default action in the processes that it starts. Here it still
/// does nothing: a handler is there for it, and execve(2) resets those, whereas it hands on what is ignored.
pub(crate) fn are_default_in_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let nothing = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
        // The standard library ignores SIGPIPE itself, and undoes that in children.
        for signal in Signal::iterator().filter(|signal| *signal != Signal::SIGPIPE) {
            // Not to be caught: SIGKILL and SIGSTOP, which nobody ignores either.
            let Ok(before) = swap(signal, &nothing) else { continue };
            if !matches!(before.handler(), SigHandler::SigIgn) {
                swap(signal, &before).unwrap();
            }
        }
    });
}

extern "C" fn nothing(_signal: i32) {}

#[expect(unsafe_code, reason = "the standard library has no signals")]
fn swap(signal: Signal, action: &SigAction) -> nix::Result<SigAction> {
    // SAFETY: the handler does nothing, so that it may run at any time; any other action is one that was there.
    unsafe { sigaction(signal, action) }
}
