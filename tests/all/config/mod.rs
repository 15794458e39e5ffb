//! Settings: options, variables, files, which of them wins, and what is said of mistakes. Each test writes a configuration or
//! types a command line, and looks at what the run did or complained of. What an option does over the life of a run is tested
//! in `run`.

mod configuration;
mod mistakes;
mod options;
mod special_files;
mod untrusted_files;
mod variables;
