//! How a job finds the backend of its run.

use super::*;

/// What a job asks of its own lock; it stands in another directory than its run.
const ASK: &str = "cd /; $PROGRAM verify && $PROGRAM extend 5m && $PROGRAM verify && echo ours";

/// Returns a run of this script, with no backend but what the words name.
fn asking(place: &Place, words: &[&str], script: &str) -> Command {
    let mut run = place.shedlock(["run", "--name", "job", "--at-most", "1m"]);
    run.args(words).args(["bash", "-c", script]).env_remove("SHEDLOCK_BACKEND");
    run.env("PROGRAM", env!("CARGO_BIN_EXE_shedlock")).env("HOME", place.path(""));
    run
}

#[track_caller]
fn says(run: &mut Command, wanted: &str) -> Finished {
    let finished = finish(run);
    assert_eq!(
        (finished.code(), finished.stdout.trim(), finished.stderr.as_str()),
        (Some(0), wanted, ""),
        "{finished:?}"
    );
    finished
}

fn write(place: &Place, name: &str, text: &str) -> String {
    std::fs::write(place.path(name), text).unwrap();
    place.path(name).display().to_string()
}

#[test]
fn a_relative_path_leads_to_the_same_file_from_everywhere() {
    let place = Place::new();
    says(&mut asking(&place, &["--backend", "sqlite:locks.db"], ASK), "ours");
    says(asking(&place, &[], ASK).env("SHEDLOCK_BACKEND", "sqlite:locks.db"), "ours");
    write(&place, "url", "sqlite:other.db\n");
    let file = format!("{}/other.db", place.path("").display());
    write(&place, "url", &format!("sqlite:{file}\n"));
    says(&mut asking(&place, &["--backend-file", "url"], ASK), "ours");
    says(asking(&place, &[], ASK).env("SHEDLOCK_BACKEND_FILE", "url"), "ours");
    write(&place, "config.toml", "backend-file = 'url'\n[jobs.job]\nbackend = 'sqlite:third.db'\n");
    says(&mut asking(&place, &["--config", "config.toml"], ASK), "ours");
    write(&place, "config.toml", "backend-file = 'url'\n");
    says(&mut asking(&place, &["--config", "config.toml"], ASK), "ours");
}

#[test]
fn the_backend_is_that_of_the_run_whatever_else_the_job_would_find() {
    let place = Place::new();
    let script = format!("export SHEDLOCK_BACKEND=sqlite:/nowhere/locks.db SHEDLOCK_CONFIG=/nowhere; {ASK}");
    says(&mut asking(&place, &["--backend", "sqlite:locks.db"], &script), "ours");
    // What is typed wins.
    let script = "$PROGRAM verify --backend sqlite:other.db; echo $?";
    let finished = finish(&mut asking(&place, &["--backend", "sqlite:locks.db"], script));
    assert_eq!(finished.stdout, "1\n", "{finished:?}");
    assert!(finished.stderr.contains("the lock `job` is not ours: it is free"), "{finished:?}");
}

#[test]
fn a_lock_that_a_job_acquires_is_where_its_own_options_say() {
    let place = Place::new();
    let script = "h=$($PROGRAM acquire --name x --at-most 1m); $PROGRAM verify $h && $PROGRAM verify && \
                  $PROGRAM release $h && echo both";
    let mut run = asking(&place, &["--backend", "sqlite:locks.db"], script);
    says(run.env("SHEDLOCK_BACKEND", "sqlite:other.db"), "both");
    assert!(place.path("other.db").exists());
}

#[test]
fn the_innermost_lock_is_asked_for_and_nothing_of_the_outer_backend_is_left() {
    let place = Place::new();
    write(&place, "url", &format!("sqlite:{}\n", place.path("outer.db").display()));
    let inner = "$PROGRAM verify && echo inner; env | grep ^SHEDLOCK_LOCK_BACKEND_FILE";
    let innermost = "$PROGRAM run --name job --at-most 5s --backend-file url bash -c '$PROGRAM verify && echo outer; env | grep -c ^SHEDLOCK_LOCK_BACKEND_FILE'";
    let script = format!(
        "cat > inner <<'X'\n{inner}\n{innermost}\nX\n$PROGRAM run --name inner --at-most 10s --backend sqlite:locks.db bash inner; \
         $PROGRAM verify && echo outer"
    );
    says(&mut asking(&place, &["--backend-file", "url"], &script), "inner\nouter\n1\nouter");
}

#[test]
fn a_file_that_names_another_backend_by_now_is_no_way() {
    let place = Place::new();
    let url = |file| format!("sqlite:{}\n", place.path(file).display());
    write(&place, "url", &url("one.db"));
    write(&place, "next", &url("two.db"));
    let script = "mv next url; $PROGRAM verify; echo $?";
    let finished = finish(&mut asking(&place, &["--backend-file", "url"], script));
    assert_eq!(finished.stdout, "125\n", "{finished:?}");
    let url = place.path("url");
    assert!(finished.stderr.contains(&format!("{} now names sqlite:", url.display())), "{finished:?}");
    let script = "rm url; $PROGRAM verify; echo $?";
    let finished = finish(&mut asking(&place, &["--backend-file", "url"], script));
    assert_eq!(finished.stdout, "125\n", "{finished:?}");
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use servers::{PostgresDatabase, postgres_tls};

    const SECRET: &str = "s3cret";

    /// Returns a database of `clerk`, who needs a password.
    fn guarded() -> PostgresDatabase {
        postgres_tls().database_of("clerk")
    }

    #[test]
    fn a_job_logs_in_as_its_run_did() {
        let database = guarded();
        let (url, bare) = (database.login(&format!("clerk:{SECRET}")).url(), database.login("clerk").url());
        let parameter = format!("{bare}?password={SECRET}");
        let place = Place::new();
        says(&mut asking(&place, &["--backend", &url], ASK), "ours");
        says(asking(&place, &[], ASK).env("SHEDLOCK_BACKEND", &url), "ours");
        says(asking(&place, &[], ASK).env("SHEDLOCK_BACKEND", &parameter), "ours");
        says(asking(&place, &["--backend", &bare], ASK).env("SHEDLOCK_BACKEND_PASSWORD", SECRET), "ours");
        says(asking(&place, &["--backend", &bare], ASK).env("PGPASSWORD", SECRET), "ours");
        // That of the URL is the nearest for the job too.
        says(asking(&place, &["--backend", &url], ASK).env("SHEDLOCK_BACKEND_PASSWORD", "wr0ng"), "ours");
        for (words, file, text) in [
            (&["--backend-file", "url"][..], "url", format!("{url}\n")),
            (&["--config", "config.toml"], "config.toml", format!("backend = '{url}'\n")),
            (
                &["--config", "config.toml"],
                "config.toml",
                format!("backend = 'sqlite:x.db'\n[jobs.job]\nbackend = '{url}'\n"),
            ),
            (&["--config", "config.toml"], "config.toml", "backend-file = 'url'\n".to_owned()),
        ] {
            write(&place, file, &text);
            let script = format!("{ASK}; env | grep -c {SECRET} || true");
            says(&mut asking(&place, words, &script), "ours\n0");
        }
    }

    #[test]
    fn a_password_is_handed_on_to_the_job_of_its_run_alone() {
        let database = guarded();
        let url = database.login(&format!("clerk:{SECRET}")).url();
        let place = Place::new();
        let shown = "env | grep ^SHEDLOCK_LOCK_BACKEND | cut -d= -f1 | sort | xargs";
        let inner = "$PROGRAM run --name inner --at-most 5s --backend sqlite:locks.db bash shown";
        write(&place, "shown", shown);
        let script = format!("bash shown; {inner}; {inner} --on-backend-error run -q");
        let outer = "SHEDLOCK_LOCK_BACKEND SHEDLOCK_LOCK_BACKEND_PASSWORD";
        let wanted = format!("{outer}\nSHEDLOCK_LOCK_BACKEND\nSHEDLOCK_LOCK_BACKEND");
        says(&mut asking(&place, &["--backend", &url], &script), &wanted);
        let without =
            "$PROGRAM run --name inner --at-most 5s --backend sqlite:missing/x.db --on-backend-error run -q bash shown";
        says(&mut asking(&place, &["--backend", &url], without), "");
    }
}
