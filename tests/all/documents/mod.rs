//! The documents, the manual and the examples: what they say is done and compared. `markdown` runs every command line of every
//! Markdown file; the other modules carry out one page, or read the generated files with the programs they are for. How well a
//! page reads is not tested.

mod backends;
mod examples;
mod fencing;
mod fleet;
mod generated;
mod markdown;
#[cfg(feature = "postgres")]
mod quickstart;
mod security;
pub(crate) mod shown;
mod troubleshooting;
mod upgrade;
