//! TLS in libpq's words.

use super::{Site, fails, works};
use crate::support::finish;
use servers::{Certificates, Postgres, PostgresDatabase};

/// Returns a database of `clerk` on the server with TLS, and a URL to it by a host's name.
fn secure(host: &str) -> (PostgresDatabase, String, &'static Certificates) {
    let database = servers::postgres_tls().database_of("clerk");
    let url = database.login("clerk:s3cret").url_at(host);
    (database, url, servers::certificates())
}

/// Returns whether the connections of a run are encrypted: each is looked at by a trigger while the lock is taken.
fn is_encrypted(database: &PostgresDatabase, url: &str) -> bool {
    database.psql(
        "create table if not exists seen (tls bool); grant all on seen to public; truncate seen;
         drop table if exists shedlock; create table shedlock (name varchar(64) primary key,
             lock_until timestamp not null, locked_at timestamp not null, locked_by varchar(255) not null);
         grant all on shedlock to public;
         create or replace function look() returns trigger language plpgsql as
             'begin insert into seen select ssl from pg_stat_ssl where pid = pg_backend_pid(); return new; end';
         create trigger looks before insert on shedlock for each row execute function look()",
    );
    Site::new(url).works();
    match database.psql("select distinct tls from seen").as_str() {
        "t" => true,
        "f" => false,
        other => panic!("{other}"),
    }
}

#[test]
fn sslmode_says_how_much_of_tls_is_wanted() {
    let (database, url, certificates) = secure("127.0.0.1");
    let authority = certificates.authority();
    for (query, encrypted) in [
        (String::new(), true),
        ("?sslmode=disable".to_owned(), false),
        // The server lets clerk in without TLS, so nothing asks for more.
        ("?sslmode=allow".to_owned(), false),
        ("?sslmode=prefer".to_owned(), true),
        ("?sslmode=require".to_owned(), true),
        (format!("?sslmode=require&sslrootcert={authority}"), true),
        (format!("?sslmode=verify-ca&sslrootcert={authority}"), true),
        (format!("?sslmode=verify-full&sslrootcert={authority}"), true),
    ] {
        assert_eq!(is_encrypted(&database, &format!("{url}{query}")), encrypted, "{query}");
    }
    // It does not let in postgres without TLS, so allow and prefer find their way to it.
    let url = database.login("postgres:s3cret").url();
    for query in ["?sslmode=allow", "?sslmode=prefer", ""] {
        assert!(is_encrypted(&database, &format!("{url}{query}")), "{query}");
    }
    Site::new(format!("{url}?sslmode=disable")).fails_at_once("no pg_hba.conf entry");
}

#[test]
fn a_host_name_is_checked_as_well_as_an_address() {
    let (_, url, certificates) = secure("localhost");
    Site::new(format!("{url}?sslmode=verify-full&sslrootcert={}", certificates.authority())).works();
    Site::new(url).works();
}

#[test]
fn a_server_that_cannot_prove_itself_is_refused() {
    let (_, url, certificates) = secure("127.0.0.1");
    let stranger = certificates.stranger();
    for mode in ["verify-ca", "verify-full", "require"] {
        let finished = Site::new(format!("{url}?sslmode={mode}&sslrootcert={stranger}")).fails_at_once("TLS failed");
        assert!(finished.stderr.contains("hint: name the file of the authority"), "{finished:?}");
    }
    // Without a file it is the public authorities that count, none of which has signed this.
    Site::new(format!("{url}?sslmode=verify-full")).fails_at_once("TLS failed");
    Site::new(format!("{url}?sslrootcert=system")).fails_at_once("TLS failed");

    // The certificate is for localhost and 127.0.0.1.
    let elsewhere = Postgres::fresh_with_tls(&["listen_addresses=127.0.0.1,127.0.0.2"]);
    let alias = elsewhere.database_of("clerk").login("clerk:s3cret").url_at("127.0.0.2");
    let authority = certificates.authority();
    let finished =
        Site::new(format!("{alias}?sslmode=verify-full&sslrootcert={authority}")).fails_at_once("TLS failed");
    assert!(finished.stderr.contains("certificate is for another name"), "{finished:?}");
    Site::new(format!("{alias}?sslmode=verify-ca&sslrootcert={authority}")).works();
    Site::new(format!("{alias}?sslmode=require&sslrootcert={authority}")).works();
}

#[test]
fn public_authorities_need_the_name_to_be_checked() {
    let (_, url, _) = secure("127.0.0.1");
    for mode in ["disable", "allow", "prefer", "require", "verify-ca"] {
        Site::new(format!("{url}?sslmode={mode}&sslrootcert=system")).fails_at_once("needs sslmode=verify-full");
    }
}

#[test]
fn a_client_certificate_lets_in_whom_it_names() {
    let (database, _, certificates) = secure("127.0.0.1");
    database.psql("grant create on schema public to jobs");
    let url = database.login("jobs").url();
    let (own, key) = (certificates.client(), certificates.client_key());
    let verified = format!("{url}?sslmode=verify-full&sslrootcert={}", certificates.authority());
    Site::new(format!("{verified}&sslcert={own}&sslkey={key}")).works();
    // The same by variables.
    let variables = [("PGSSLMODE", "require"), ("PGSSLCERT", own.as_str()), ("PGSSLKEY", &key)];
    works(Site::new(&url).run("job", ["true"]).envs(variables));
    Site::new(&verified).fails_at_once("connection requires a valid client certificate");
    let server_key = format!("{verified}&sslcert={own}&sslkey={}", certificates.server_key());
    Site::new(server_key).fails_at_once("is not the key of");
    Site::new(format!("{verified}&sslcert={own}&sslkey=/no/such/key")).fails_at_once("no such file");
    Site::new(format!("{verified}&sslcert={own}")).fails_at_once("sslcert without sslkey");
    // It proves that one is jobs, and nobody else.
    let clerk = database.login("clerk:wr0ng").url();
    Site::new(format!("{clerk}?sslmode=require&sslcert={own}&sslkey={key}")).fails_at_once("password authentication");
}

#[test]
fn the_channel_is_bound_where_that_is_asked_for() {
    let (_, url, _) = secure("127.0.0.1");
    Site::new(format!("{url}?channel_binding=require")).works();
    Site::new(format!("{url}?channel_binding=disable")).works();
    Site::new(format!("{url}?channel_binding=require&sslmode=disable")).fails_at_once("could not log in");
}

#[test]
fn a_server_without_tls_is_good_enough_for_prefer_and_for_nothing_more() {
    let database = servers::postgres().database();
    let authority = servers::certificates().authority();
    for query in ["", "?sslmode=prefer", "?sslmode=allow", "?sslmode=disable"] {
        Site::new(format!("{}{query}", database.url())).works();
    }
    // libpq does not look into the file either while TLS is only preferred and not offered.
    Site::new(format!("{}?sslrootcert={authority}", database.url())).works();
    for mode in ["require", "verify-ca", "verify-full"] {
        let site = Site::new(format!("{}?sslmode={mode}&sslrootcert={authority}", database.url()));
        site.fails_at_once("the server offers no TLS");
    }
    let site = Site::new(database.url());
    works(site.run("job", ["true"]).env("PGSSLMODE", "prefer"));
    fails(site.run("job", ["true"]).env("PGSSLMODE", "require"), "the server offers no TLS");
}

#[test]
fn tls_goes_by_the_url_when_the_variables_say_otherwise() {
    let (database, url, certificates) = secure("127.0.0.1");
    let site = Site::new(format!("{url}?sslmode=disable"));
    works(site.run("job", ["true"]).env("PGSSLMODE", "verify-full"));
    let site = Site::new(format!("{url}?sslrootcert={}", certificates.authority()));
    finish(site.run("job", ["true"]).env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", certificates.stranger()))
        .is_silent_with(0);
    assert_eq!(database.psql("select count(*) from shedlock"), "1");
}
