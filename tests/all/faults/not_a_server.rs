//! Servers that are none: whatever answers, the run ends in time, with one line that shows no password.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::support::process::Started;
use crate::support::{Place, finish, finish_in_time, kill};

/// Returns a port where every connection is answered like this, and then closed.
fn server(answers: Vec<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let answers = answers.clone();
            thread::spawn(move || answer(&client, &answers));
        }
    });
    port
}

/// Says the first answer without being asked, and each of the others after something was heard.
fn answer(mut client: &TcpStream, answers: &[Vec<u8>]) {
    let mut buffer = [0; 65_536];
    for (place, answer) in answers.iter().enumerate() {
        if place > 0 && !matches!(client.read(&mut buffer), Ok(1..)) {
            return;
        }
        if client.write_all(answer).is_err() {
            return;
        }
    }
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// Returns answers that are wrong in ways of their own; none of them is a secret.
fn answers() -> Vec<Vec<Vec<u8>>> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let greeting = {
        // As MariaDB greets: version 10, its name, a thread, a salt, what it can do, a plugin.
        let mut body = b"\x0a5.5.5-10.11.6-MariaDB\0\x01\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\x81\x15".to_vec();
        body.extend([0; 10]);
        body.extend(b"abcdefghijkl\0mysql_native_password\0");
        let mut packet = vec![u8::try_from(body.len()).unwrap(), 0, 0, 0];
        packet.extend(body);
        packet
    };
    let ok = b"\x07\0\0\x02\0\0\0\x02\0\0\0".to_vec();
    let let_in = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec();
    let mut all = vec![
        vec![],
        vec![bytes("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>")],
        vec![vec![], bytes("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>")],
        vec![bytes("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")],
        vec![vec![], b"\x15\x03\x01\0\x02\x02\x46".to_vec()],
        vec![vec![], vec![0; 4096]],
        vec![vec![0xff; 4096]],
        vec![vec![0; 4096]],
        // PostgreSQL: TLS and then not, a refusal that is cut, a message without end, let in and then nonsense.
        vec![vec![], bytes("S"), bytes("hello")],
        vec![vec![], bytes("N"), b"E\0\0\0\x09SFATAL".to_vec()],
        vec![vec![], bytes("N"), b"E\0\0\0\0".to_vec()],
        vec![vec![], bytes("N"), b"R\x7f\xff\xff\xff\0\0\0\0".to_vec()],
        vec![vec![], bytes("N"), b"R\0\0\0\x08\0\0\0\x63".to_vec()],
        vec![
            vec![],
            bytes("N"),
            b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0".to_vec(),
            b"R\0\0\0\x0c\0\0\0\x0br=xx".to_vec(),
        ],
        vec![vec![], bytes("N"), b"E\0\0\0\x22SFATAL\0C28P01\0Mtwo\nlines\0\0\0\0\0\0\0\0\0".to_vec()],
        vec![vec![], bytes("N"), let_in.clone(), noise(7, 300)],
        vec![vec![], bytes("N"), let_in.clone(), b"1\0\0\0\x042\0\0\0\x04T\0\0\0\x06\xff\xff".to_vec()],
        vec![
            vec![],
            bytes("N"),
            let_in,
            b"1\0\0\0\x042\0\0\0\x04T\0\0\0\x06\0\0D\0\0\0\x06\0\0C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I".to_vec(),
        ],
        // MySQL: half a greeting, a greeting and then nonsense, another way to log in, let in and then nonsense.
        vec![greeting[..30].to_vec()],
        vec![greeting.clone(), noise(8, 300)],
        vec![greeting.clone(), b"\x01\0\0\x02\xfe".to_vec()],
        vec![greeting.clone(), b"\x02\0\0\x02\xfe\0".to_vec()],
        vec![
            greeting.clone(),
            b"\x1d\0\0\x02\xfecaching_sha2_password\0abcdef".to_vec(),
            b"\x02\0\0\x04\x01\x09".to_vec(),
        ],
        vec![greeting.clone(), b"\x03\0\0\x02\xff\x15\x04".to_vec()],
        vec![greeting.clone(), ok.clone(), noise(9, 300)],
        vec![greeting.clone(), ok.clone(), b"\x02\0\0\x01\xfb/".to_vec()],
        vec![greeting.clone(), ok.clone(), b"\x01\0\0\x01\x07".to_vec()],
        vec![greeting.clone(), ok.clone(), b"\x07\0\0\x01\0\0\0\x02\0\0\0".to_vec()],
        vec![greeting, ok, b"\x07\0\0\x01\0\0\0\x0a\0\0\0\x01\0\0\x02\x09\x01\0\0\x03\xff".to_vec()],
        // Redis: lengths that cannot be, nesting, another type, a refusal in two lines.
        vec![vec![], bytes("$99999999999999\r\n")],
        vec![vec![], bytes("*2147483647\r\n")],
        vec![vec![], bytes("*-7\r\n")],
        vec![vec![], bytes(&"*1\r\n".repeat(100_000))],
        vec![vec![], bytes("*2\r\n:1\r\n$3\r\nabc\r\n")],
        vec![vec![], bytes("*2\r\n:1\r\n:-1\r\n")],
        vec![vec![], bytes("%1\r\n+a\r\n+b\r\n")],
        vec![vec![], bytes("-")],
        vec![vec![], bytes("-\r\n")],
        vec![vec![], bytes("-ERR \r\n")],
        vec![vec![], bytes(":9223372036854775808\r\n")],
        vec![vec![], bytes("-MOVED 1 [::1\r\n")],
    ];
    // etcd: answers that are JSON of another kind, without a time, too long, moved, or of a proxy.
    let http =
        |head: &str, body: &str| bytes(&format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    let date = "200 OK\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT";
    for body in [
        "",
        "null",
        "[]",
        "{}",
        "{\"header\":7}",
        "{\"header\":{\"revision\":\"x\"}}",
        "{\"header\":{\"revision\":\"5\"},\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"?\"}]}}]}",
        "{\"header\":{\"revision\":\"5\"},\"responses\":7,\"succeeded\":\"yes\"}",
        "{\"header\":{\"revision\":\"99999999999999999999999\"},\"succeeded\":true}",
    ] {
        all.push(vec![vec![], http(date, body), http(date, body)]);
    }
    all.push(vec![vec![], http("200 OK", "{\"header\":{\"revision\":\"5\"}}")]);
    all.push(vec![vec![], http("200 OK\r\nDate: yesterday", "{}")]);
    all.push(vec![vec![], http("302 Found\r\nLocation: http://127.0.0.1:1/", "")]);
    all.push(vec![vec![], http("407 Proxy Authentication Required", "<html>no</html>")]);
    all.push(vec![vec![], http("502 Bad Gateway", "<html>no</html>")]);
    all.push(vec![vec![], bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")]);
    all.push(vec![vec![], bytes("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}")]);
    all.push(vec![vec![], bytes(&format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100_000)))]);
    all.push(vec![vec![], http(date, &"[".repeat(100_000))]);
    // ZooKeeper: a session and then nonsense, a server that may only be read, a session that is none, lengths that cannot be,
    // answers to other requests, a refused login, lists without end.
    let session = |rest: &[u8]| {
        let greeting = [b"\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\x01\0\0\0\x10".as_slice(), &[7; 16]].concat();
        let length = u32::try_from(greeting.len() + 1).unwrap().to_be_bytes();
        vec![vec![], [length.as_slice(), &greeting, b"\0", rest].concat()]
    };
    let reply = |number: i32, error: i32, body: &[u8]| {
        let head = [number.to_be_bytes().as_slice(), &[0; 8], &error.to_be_bytes(), body].concat();
        [u32::try_from(head.len()).unwrap().to_be_bytes().as_slice(), &head].concat()
    };
    all.extend([
        session(&noise(10, 300)),
        session(b""),
        session(b"\xff\xff\xff\xff"),
        session(b"\x01\0\0\0"),
        session(b"\0\0\0\0"),
        session(&reply(-4, -115, b"")),
        session(&reply(9, 0, b"")),
        session(&[reply(-4, 0, b""), reply(1, 0, &[0xff; 68]), reply(2, 0, &[0x7f; 90]), reply(3, -101, b"")].concat()),
        session(
            &[reply(-4, 0, b""), reply(1, 0, &[0; 68]), reply(2, 0, b"\x7f\xff\xff\xff"), reply(3, 7, b"")].concat(),
        ),
        vec![vec![], b"\0\0\0\x25\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\x01\0\0\0\x10aaaaaaaaaaaaaaaa\x01".to_vec()],
        vec![vec![], [b"\0\0\0\x25".as_slice(), &[0; 37]].concat()],
    ]);
    // The API server of Kubernetes: no date, a body without end, bodies of another kind, deep ones, a Lease of odd values.
    let http = |status: &str, body: &str| {
        let date = "Date: Sun, 22 Nov 2026 12:00:00 GMT";
        bytes(&format!("HTTP/1.1 {status}\r\n{date}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    all.extend([
        vec![vec![], bytes("HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"kind\":\"Lease\",\"spec\":1}")],
        vec![vec![], bytes("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{")],
        vec![vec![], bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")],
        vec![vec![], bytes("HTTP/9.9 999 \r\n\r\n")],
        vec![vec![], http("404 Not Found", "404 page not found")],
        vec![vec![], http("200 OK", "{\"kind\":\"Pod\"}")],
        vec![vec![], http("200 OK", &"[".repeat(100_000))],
        vec![
            vec![],
            http("404 Not Found", "{\"kind\":\"Status\",\"details\":{\"kind\":\"leases\"}}"),
            http("200 OK", "{\"kind\":\"LeaseList\",\"metadata\":{\"resourceVersion\":[]}}"),
            http("201 Created", "{\"kind\":\"Lease\",\"metadata\":7,\"spec\":[]}"),
        ],
        vec![
            vec![],
            http("200 OK", "{\"kind\":\"Lease\",\"metadata\":[],\"spec\":{\"leaseTransitions\":-3}}"),
            http("409 Conflict", "null"),
        ],
        vec![vec![], http("302 Found\r\nLocation: http://127.0.0.1:1/", "")],
    ]);
    // MongoDB: lengths that cannot be, messages of another kind, documents that end too soon or never, a server that is too
    // old or too new, one without a time, one that refuses in two lines, and one that loses its mind after it was found.
    let message = |kind: u32, body: &[u8]| {
        let length = u32::try_from(16 + body.len()).unwrap();
        [length, 9, 1, kind].iter().flat_map(|word| word.to_le_bytes()).chain(body.iter().copied()).collect::<Vec<u8>>()
    };
    let document = |fields: &[u8]| {
        let length = u32::try_from(5 + fields.len()).unwrap().to_le_bytes();
        [length.as_slice(), fields, b"\0"].concat()
    };
    let reply = |fields: &[u8]| message(2013, &[b"\0\0\0\0\0".as_slice(), &document(fields)].concat());
    let first = |fields: &[u8]| message(1, &[[0; 16].as_slice(), &1_u32.to_le_bytes(), &document(fields)].concat());
    let number = |name: &str, number: u32| [b"\x10".as_slice(), name.as_bytes(), b"\0", &number.to_le_bytes()].concat();
    let ok = |newest: u32| {
        let sizes = [
            number("maxBsonObjectSize", 1 << 24),
            number("maxMessageSizeBytes", 1 << 25),
            number("maxWriteBatchSize", 1),
        ];
        let versions = [
            number("minWireVersion", newest.min(40).saturating_sub(9)),
            number("maxWireVersion", newest),
            number("ok", 1),
        ];
        [b"\x08ismaster\0\x01".to_vec(), sizes.concat(), versions.concat()].concat()
    };
    let complaint = [number("ok", 0), number("code", 13), b"\x02errmsg\0\x0a\0\0\0two\nlines\0\0".to_vec()].concat();
    all.extend([
        vec![vec![], message(1, b"")],
        vec![vec![], message(7, &document(b""))],
        vec![vec![], b"\xff\xff\xff\xff\x09\0\0\0\x01\0\0\0\x01\0\0\0".to_vec()],
        vec![vec![], b"\xff\xff\xff\x7f\x09\0\0\0\x01\0\0\0\xdd\x07\0\0".to_vec()],
        vec![vec![], first(b"")],
        vec![vec![], first(&ok(2))],
        vec![vec![], first(&ok(2000))],
        vec![vec![], first(&complaint)],
        vec![vec![], first(b"\x02ok\0\xff\xff\xff\x7fx")],
        vec![vec![], reply(&ok(13)), noise(11, 300)],
        vec![vec![], first(&ok(13)), reply(&ok(13)), reply(&ok(13))],
        vec![vec![], first(&ok(13)), reply(&complaint)],
        vec![vec![], first(&ok(13)), noise(12, 300)],
        vec![vec![], first(&ok(13)), reply(b"\x03a\0\x03a\0\x03a\0"), b"x".to_vec()],
    ]);
    // A provider: another answer, none that fits, an error of another kind, what was not asked, a line or a list without end.
    let opened = bytes("{\"label\":\"x\",\"grain\":1,\"runs\":9,\"version\":null}\n");
    let reading = |fields: &str| bytes(&format!("{{\"now\":1795622918607,\"floor\":0,{fields}}}\n"));
    let record = "{\"owner\":\"\",\"since\":null,\"until\":0,\"set_at\":null,\"token\":0,\"runs\":[]}";
    let found = reading(&format!("\"version\":\"1\",\"record\":{record}"));
    all.extend([
        vec![vec![], bytes("\n")],
        vec![vec![], bytes("{}\n")],
        vec![vec![], bytes("{\"label\":\"two\\nlines \\u001b[2J\",\"grain\":3600001,\"runs\":-1}\n")],
        vec![
            vec![],
            bytes("{\"error\":\"two\\nlines\",\"class\":\"permanent\",\"sent\":false,\"hint\":\"two\\nlines\"}\n"),
        ],
        vec![vec![], bytes("{\"error\":\"no\",\"class\":\"odd\",\"sent\":false,\"hint\":null}\n")],
        vec![vec![], [opened.clone(), opened.clone()].concat()],
        vec![vec![], opened.clone(), bytes("{\"written\":true}\n")],
        vec![vec![], opened.clone(), bytes("{\"now\":1795622918607}\n")],
        vec![vec![], opened.clone(), bytes("{\"now\":\"soon\",\"floor\":0,\"version\":null,\"record\":null}\n")],
        vec![
            vec![],
            opened.clone(),
            bytes("{\"now\":18446744073709551615,\"floor\":0,\"version\":null,\"record\":null}\n"),
        ],
        vec![vec![], opened.clone(), reading("\"version\":\"1\",\"record\":null")],
        vec![vec![], opened.clone(), reading("\"version\":\"1\",\"record\":{\"owner\":7}")],
        vec![vec![], opened.clone(), bytes(&format!("{}\n", "[".repeat(100_000)))],
        vec![vec![], opened.clone(), bytes(&"x".repeat(3 << 20))],
        vec![vec![], opened.clone(), found.clone(), bytes("{\"written\":1}\n")],
        vec![vec![], opened.clone(), found.clone(), bytes("{\"written\":true}\n{\"written\":true}\n")],
        vec![vec![], opened.clone(), found, bytes("{\"error\":null,\"class\":null}\n")],
        vec![vec![], opened, noise(13, 300)],
    ]);
    all.extend((0..3).map(|seed| vec![noise(seed, 40)]));
    all.extend((0..3).map(|seed| vec![vec![], noise(100 + seed, 200)]));
    all
}

/// Returns a URL of each backend that leads to a port, with a password where that is not one answer more to give.
fn urls(port: u16) -> Vec<String> {
    #[cfg(feature = "provider")]
    servers::stores::install_wire();
    vec![
        format!("postgres://jobs:{SECRET}@127.0.0.1:{port}/x"),
        format!("mysql://jobs:{SECRET}@127.0.0.1:{port}/x"),
        format!("redis://127.0.0.1:{port}"),
        format!("rediss://:{SECRET}@127.0.0.1:{port}?sslmode=require"),
        format!("redis-cluster://:{SECRET}@127.0.0.1:{port}"),
        format!("etcd://127.0.0.1:{port}"),
        format!("etcd://jobs:{SECRET}@127.0.0.1:{port}?sslmode=require"),
        format!("zookeeper://jobs:{SECRET}@127.0.0.1:{port}"),
        format!("zookeeper://jobs:{SECRET}@127.0.0.1:{port}?sslmode=require"),
        format!("kubernetes://127.0.0.1:{port}/jobs?sslmode=disable"),
        format!("kubernetes://127.0.0.1:{port}/jobs"),
        #[cfg(feature = "provider")]
        format!("mongodb://127.0.0.1:{port}/x"),
        #[cfg(feature = "provider")]
        format!("mongodb://jobs:{SECRET}@127.0.0.1:{port}/x"),
        #[cfg(feature = "provider")]
        format!("mongodb://127.0.0.1:{port}/x?sslmode=require"),
        #[cfg(feature = "provider")]
        format!("wire://127.0.0.1:{port}/x"),
        #[cfg(feature = "provider")]
        format!("wire://jobs:{SECRET}@127.0.0.1:{port}/x"),
    ]
}

const SECRET: &str = "hunter2";

/// Fails with 125 when the time is up, in one line that shows no password.
#[track_caller]
fn complains_in_time(place: &Place, url: &str, what: &str) {
    let mut command = place.run("a", ["--backend-timeout", "300ms", "true"]);
    let finished = finish_in_time(command.env("SHEDLOCK_BACKEND", url));
    let text = &finished.stderr;
    let told = finished.code() == Some(125)
        && ["backend ", "the backend did"].iter().any(|word| text.starts_with(&format!("shedlock: a: {word}")))
        && text.lines().skip(1).all(|line| line.starts_with("hint: "))
        && text.lines().count() <= 2
        && !text.contains(SECRET)
        && text.len() < 1500;
    assert!(told, "{url} {what}: {finished:?}");
}

#[test]
fn what_answers_and_is_no_server_is_an_error_in_time() {
    let place = Place::new();
    let all = answers();
    thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(8)) {
            let place = &place;
            scope.spawn(move || {
                for answers in part {
                    let shown = answers.iter().map(|answer| String::from_utf8_lossy(&answer[..answer.len().min(60)]));
                    let shown = shown.collect::<Vec<_>>().join(" | ");
                    for url in urls(server(answers.clone())) {
                        complains_in_time(place, &url, &shown);
                    }
                }
            });
        }
    });
}

#[test]
fn a_server_that_says_a_byte_now_and_then_is_given_up_in_time() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || {
                // Each of these is the beginning of something to one of the backends.
                for byte in b"R\0\0\x0a5.5.5-10".iter().chain(std::iter::repeat(&b'0')) {
                    if client.write_all(&[*byte]).is_err() {
                        return;
                    }
                    thread::sleep(Duration::from_millis(50));
                }
            });
        }
    });
    for url in urls(port) {
        complains_in_time(&Place::new(), &url, "slow");
    }
}

#[test]
fn a_run_is_stopped_while_a_server_that_accepts_says_nothing() {
    for which in 0..urls(0).len() {
        // A port of its own: the run before may have left a second connection at its port.
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = urls(listener.local_addr().unwrap().port()).remove(which);
        let place = Place::new();
        let mut command = place.run("a", ["--wait", "1h", "--backend-timeout", "1h", "true"]);
        let run = Started::new(&place, "run", command.env("SHEDLOCK_BACKEND", &url));
        let (mut connection, _) = listener.accept().unwrap();
        // Without a password or TLS the server has got the request, and may carry it out later.
        let asks = url.starts_with("redis:") || url.starts_with("etcd://127") || url.ends_with("sslmode=disable");
        if asks {
            connection.read_exact(&mut [0]).unwrap();
        }
        kill(run.pid(), "TERM");
        let ended = run.finish();
        match asks {
            true => ended.complains(143, "the lock may be held until"),
            false => ended.is_silent_with(143),
        }
        drop(connection);
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_postgresql_that_hangs_up_is_said_to_have_closed_the_connection() {
    let port = server(vec![vec![], vec![]]);
    let place = Place::new();
    for mode in ["prefer", "disable"] {
        let url = format!("postgres://u@127.0.0.1:{port}/x?sslmode={mode}");
        let mut run = place.run("job", ["--backend-timeout", "1s", "true"]);
        let finished = finish(run.env("SHEDLOCK_BACKEND", url));
        finished.complains(125, "the server closed the connection before the login");
    }
}
