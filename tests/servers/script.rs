//! A program in Python through which the tests speak to a server: a client that none of our code is in.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::program;

/// A connection of the tests to a server, which is a process of its own. Each line of its input is a request, a JSON list;
/// the answer is a line of JSON: the result, or `{"error": NAME}`.
pub struct Script(Mutex<Helper>);

struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Script {
    pub(crate) fn new(text: &str, arguments: &[&str]) -> Self {
        let python = Path::new("/usr/bin/python3");
        assert!(python.exists(), "{} is not installed; tests/run installs what the tests need", python.display());
        let mut command = program::command("/usr/bin/python3");
        command.args(["-c", text]).args(arguments).current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self(Mutex::new(Helper { child, input, output }))
    }

    /// Carries out a request. The answer may be an error's name.
    pub fn try_request(&self, request: &Value) -> Result<Value, String> {
        let mut helper = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = String::new();
        writeln!(helper.input.as_mut().unwrap(), "{request}").unwrap();
        helper.output.read_line(&mut answer).unwrap();
        assert!(
            !answer.is_empty(),
            "the client of the tests has ended; tests/run installs the libraries that it needs"
        );
        let answer: Value = serde_json::from_str(&answer).unwrap();
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }

    /// Like `try_request`, for what has to succeed.
    #[track_caller]
    pub fn request(&self, request: &Value) -> Value {
        self.try_request(request).unwrap_or_else(|error| panic!("{request}: {error}"))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The end of its input ends it, at the latest when it notices; nobody waits for that.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
