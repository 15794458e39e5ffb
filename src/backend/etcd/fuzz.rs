//! The target of the fuzzer that gives etcd's answers.

use std::time::Duration;

use super::Etcd;
use super::layout::{KeySpace, StoredTimes};
use super::wire::Client;
use crate::backend::net::http;
use crate::backend::testing::fuzz_operations;

pub(crate) fn fuzz(input: &[u8]) {
    if let Some(state) = StoredTimes::parse(input) {
        assert_eq!(StoredTimes::parse(&state.to_json()), Some(state));
    }
    let space = KeySpace { prefix: "shedlock".to_owned(), environment: "default".to_owned() };
    let client = Client::new(http::fuzz::client(input), None);
    fuzz_operations::operate(&mut Etcd::new(client, space, Duration::ZERO), input);
}
