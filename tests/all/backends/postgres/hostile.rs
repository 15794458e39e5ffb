//! A role that may create in a schema of the `search_path`, and plants there what the statements of others could pick up.

use super::{Site, row};
use crate::support::{finish, wait_until};
use servers::PostgresDatabase;

/// Plants an operator for each pair of types under each name, and a function for each list of types that a function of the
/// server's could be taken for. Each one says that it was called, also if that is undone, and fails.
const PLANT: &str = r#"
create sequence public.called; grant usage, select on sequence public.called to public;
do $plant$
declare
    types text[] := '{text,varchar,bpchar,name,"\"char\"",timestamp,timestamptz,interval,date,int2,int4,int8,float4,float8,numeric,oid,regclass,bool,text[],varchar[],name[],int2[]}';
    few text[] := '{text,varchar,name,oid,regclass,int2,int4,bool}';
    body text := $body$ language plpgsql as 'begin perform pg_catalog.nextval(''public.called''); raise exception ''planted''; end'$body$;
    one text; two text; three text; word text;
begin
    foreach one in array types loop
        foreach word in array '{date_part,to_regclass,unnest,version,row_security_active,current_setting,quote_ident,current_schemas,int8,text,float8,timezone,array_agg}'::text[] loop
            execute format('create function public.%I(%s) returns bool %s', word, one, body);
        end loop;
        foreach two in array types loop
            foreach word in array '{planted,date_part,string_to_array,string_agg,format_type,has_table_privilege,current_setting,timezone,text,int8,float8,timestamp,timestamptz}'::text[] loop
                execute format('create function public.%I(%s, %s) returns bool %s', word, one, two, body);
            end loop;
            foreach word in array '{=,<>,<,>,<=,>=,+,-,*,/,||}'::text[] loop
                execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = public.planted)', word, one, two);
            end loop;
        end loop;
    end loop;
    foreach one in array few loop foreach two in array few loop foreach three in array few loop
        foreach word in array '{set_config,has_table_privilege,has_column_privilege,timestamp,timestamptz}'::text[] loop
            execute format('create function public.%I(%s, %s, %s) returns bool %s', word, one, two, three, body);
        end loop;
    end loop; end loop; end loop;
    foreach word in array '{pg_backend_pid,pg_is_in_recovery,version,row_number,clock_timestamp}'::text[] loop
        execute format('create function public.%I() returns bool %s', word, body);
    end loop;
end $plant$"#;

/// Returns a database in which anybody may create in `public`, as by default up to PostgreSQL 14, and somebody has.
fn planted(kind: &str) -> (PostgresDatabase, Site) {
    let database = servers::postgres().database();
    let [villain, jobs] = ["villain", "jobs"].map(servers::unique);
    database.psql(&format!(
        "create role {villain} login; create role {jobs} login; grant create on schema public to public"
    ));
    let [name, time] = if kind == "text" { ["text", "timestamptz"] } else { ["varchar(64)", "timestamp"] };
    database.psql(&format!(
        "create table shedlock (name {name} primary key, lock_until {time} not null, locked_at {time} not null, \
         locked_by {kind} not null); grant select, insert, update, delete on shedlock to {jobs}"
    ));
    database.try_psql_as(&villain, PLANT).unwrap();
    let site = Site::new(database.login(&jobs).socket_url());
    (database, site)
}

#[test]
fn what_others_plant_in_the_search_path_is_never_called() {
    for kind in ["varchar(255)", "text"] {
        let (database, site) = planted(kind);
        let command = |words: &[&str], codes: &[i32]| {
            let finished = finish(site.place.shedlock(words).env("SHEDLOCK_BACKEND", &site.url));
            assert!(codes.contains(&finished.code().unwrap()), "{words:?}: {finished:?}");
            let called = database.psql("select is_called from public.called");
            assert_eq!(called, "f", "{kind}: called in {words:?}: {finished:?}");
        };
        let job = site.job("job", ["--lease", "3s", "--at-least", "1s"]);
        let until = || database.psql("select lock_until::text from shedlock where name::text = 'job'::text");
        let was = until();
        wait_until("a renewal", || (until() != was).then_some(()));
        assert!(!site.is_free("job"));
        command(&["status"], &[0]);
        job.end(0).is_silent_with(0);
        command(&["history", "--since", "1h", "job"], &[0]);
        command(&["pause", "other", "--for", "1m"], &[0]);
        command(&["status", "other"], &[0]);
        command(&["resume", "other"], &[0]);
        command(&["unlock", "--force", "job"], &[0, 1]);
        command(&["forget", "other"], &[0]);
        command(&["init"], &[0]);
        command(&["check"], &[0]);
        command(&["run", "--name", "again", "--at-most", "1m", "true"], &[0]);
        // The records are there: nothing was passed over in silence.
        let closed = "select count(*) from shedlock_history where outcome::text = 'success'::text";
        assert_eq!(database.psql(closed), "2", "{kind}");
    }
}

#[test]
fn the_key_serves_the_comparison() {
    let database = servers::postgres().database();
    Site::new(database.url()).works();
    let plan = database.psql(
        "set enable_seqscan = off; prepare look (text) as select from shedlock where name::text = $1; \
         explain (costs off) execute look ('job')",
    );
    assert!(plan.contains("Index Cond: (name = 'job'::text)"), "{plan}");
    assert!(row(&database, "job").owner.ends_with(":ended"));
}
