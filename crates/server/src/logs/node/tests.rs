use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Request;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName, LAST_MODIFIED};
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use testkit::clock::TokioClock;
use testkit::host::LinuxHost;

use super::*;

/// A machine with some logs, and a journal that knows `kubelet`.
struct Machine {
    place: TempDir,
    logs: NodeLogs,
}

/// Tells what it was asked, and complains.
const JOURNALCTL: &str = "#!/bin/sh
if [ \"$1\" = --field ]; then echo cron.service; echo kubelet.service; exit; fi
for word; do echo \"$word\"; done
echo complaint >&2
exit 1
";

fn machine(queries: bool) -> Machine {
    let place = tempfile::tempdir().unwrap();
    let put = |path: &str, content: &str| {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    put("var/log/syslog", "0123456789");
    put("var/log/app/app.log", "of the app\n");
    put("var/log/site/index.html", "<p>own page");
    put("var/log/empty", "");
    put("etc/shadow", "s3cret");
    put("usr/bin/journalctl", JOURNALCTL);
    let journal = place.path().join("usr/bin/journalctl");
    fs::set_permissions(journal, fs::Permissions::from_mode(0o755)).unwrap();
    let out = place.path().join("var/log/out");
    symlink(place.path().join("etc"), out).unwrap();
    let logs = NodeLogs {
        host: Arc::new(LinuxHost::new(place.path().to_owned())),
        clock: Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH)),
        queries,
    };
    Machine { place, logs }
}

impl Machine {
    async fn ask(&self, target: &str, headers: &[(HeaderName, &str)]) -> Response<Body> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        self.logs.answer(&parts).await
    }

    async fn told(&self, target: &str, headers: &[(HeaderName, &str)]) -> (u16, String) {
        let answer = self.ask(target, headers).await;
        let status = answer.status().as_u16();
        let length = header(&answer, CONTENT_LENGTH).map(|length| length.parse::<usize>().unwrap());
        let body = bytes(answer).await;
        if let Some(length) = length {
            assert_eq!(body.len(), length, "{target}");
        }
        (status, String::from_utf8(body).unwrap())
    }
}

fn header(answer: &Response<Body>, name: HeaderName) -> Option<String> {
    let value = answer.headers().get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

async fn bytes(answer: Response<Body>) -> Vec<u8> {
    let body = answer.into_body().collect().await.unwrap();
    body.to_bytes().to_vec()
}

#[tokio::test]
async fn files_and_directories_are_served_and_nothing_else() {
    let machine = machine(false);
    let plain = [
        ("/logs/syslog", (200, "0123456789")),
        ("/logs/app/app.log", (200, "of the app\n")),
        ("/logs/./app//app.log", (200, "of the app\n")),
        ("/logs/empty", (200, "")),
        ("/logs/site/", (200, "<p>own page")),
        ("/logs/absent", (404, "404 page not found\n")),
        ("/logs/syslog/below", (404, "404 page not found\n")),
        ("/logs/%00", (404, "404 page not found\n")),
        ("/logs/../../etc/shadow", (404, "404 page not found\n")),
        (
            "/logs/..%2f..%2fetc%2fshadow",
            (404, "404 page not found\n"),
        ),
        (
            "/logs/app/%2e%2e/%2e%2e/%2e%2e/etc/shadow",
            (404, "404 page not found\n"),
        ),
        ("/logs/out/shadow", (403, "403 Forbidden\n")),
        ("/logs/out", (403, "403 Forbidden\n")),
        // Without leave, a query is none.
        ("/logs/syslog?query=kubelet", (200, "0123456789")),
    ];
    for (target, (status, body)) in plain {
        let told = machine.told(target, &[]).await;
        assert_eq!(told, (status, body.to_owned()), "{target}");
    }
    let (status, page) = machine.told("/logs/", &[]).await;
    assert_eq!(status, 200);
    assert!(page.contains("<a href=\"app/\">app/</a>\n<a href=\"empty\">empty</a>\n"));
    for (target, place) in [
        ("/logs", "/logs/"),
        ("/logs/app?x=1", "app/?x=1"),
        ("/logs/syslog/", "../syslog"),
        ("/logs/site/index.html", "./"),
    ] {
        let answer = machine.ask(target, &[]).await;
        assert_eq!(answer.status(), StatusCode::MOVED_PERMANENTLY, "{target}");
        assert_eq!(header(&answer, LOCATION).as_deref(), Some(place));
    }
}

#[tokio::test]
async fn who_has_a_file_already_is_not_sent_it_again() {
    use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
    let machine = machine(false);
    for target in ["/logs/syslog", "/logs/"] {
        let answer = machine.ask(target, &[]).await;
        let modified = header(&answer, LAST_MODIFIED).unwrap();
        let old = "Thu, 01 Jan 1970 00:00:01 GMT";
        let status = async |name, value: &str| {
            let answer = machine.ask(target, &[(name, value)]).await;
            answer.status().as_u16()
        };
        assert_eq!(status(IF_MODIFIED_SINCE, &modified).await, 304);
        assert_eq!(status(IF_MODIFIED_SINCE, old).await, 200);
        assert_eq!(status(IF_MODIFIED_SINCE, "yesterday").await, 200);
        if target != "/logs/" {
            assert_eq!(status(IF_UNMODIFIED_SINCE, old).await, 412);
            assert_eq!(status(IF_UNMODIFIED_SINCE, &modified).await, 200);
            assert_eq!(status(IF_NONE_MATCH, "*").await, 304);
            assert_eq!(status(IF_NONE_MATCH, "\"tag\"").await, 200);
            assert_eq!(status(IF_MATCH, "\"tag\"").await, 412);
        }
    }
}

#[tokio::test]
async fn parts_of_a_file_can_be_had() {
    use http::header::{IF_RANGE, RANGE};
    let machine = machine(false);
    let part = async |range: &str| machine.told("/logs/syslog", &[(RANGE, range)]).await;
    assert_eq!(part("bytes=2-4").await, (206, "234".to_owned()));
    assert_eq!(part("bytes=-3").await, (206, "789".to_owned()));
    assert_eq!(
        part("bytes=99-").await,
        (416, "invalid range: failed to overlap\n".to_owned())
    );
    assert_eq!(part("bytes=x").await, (416, "invalid range\n".to_owned()));
    let answer = machine.ask("/logs/syslog", &[(RANGE, "bytes=2-4")]).await;
    assert_eq!(
        header(&answer, CONTENT_RANGE).as_deref(),
        Some("bytes 2-4/10")
    );
    let answer = machine
        .ask("/logs/syslog", &[(RANGE, "bytes=0-1,8-")])
        .await;
    let kind = header(&answer, CONTENT_TYPE).unwrap();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let part = |range, text| {
        format!(
            "--{boundary}\r\nContent-Range: bytes {range}/10\r\nContent-Type: text/plain; \
             charset=utf-8\r\n\r\n{text}\r\n"
        )
    };
    let wanted = part("0-1", "01") + &part("8-9", "89") + &format!("--{boundary}--\r\n");
    let length = header(&answer, CONTENT_LENGTH).unwrap();
    assert_eq!(length, wanted.len().to_string());
    assert_eq!(String::from_utf8(bytes(answer).await).unwrap(), wanted);
    // Of an empty file there are no parts, and nothing is wrong with that.
    let empty = machine.told("/logs/empty", &[(RANGE, "bytes=0-9")]).await;
    assert_eq!(empty, (200, String::new()));
    // The client's copy is of another file.
    let old = (IF_RANGE, "Thu, 01 Jan 1970 00:00:01 GMT");
    let headers = [(RANGE, "bytes=2-4"), old];
    assert_eq!(machine.told("/logs/syslog", &headers).await.0, 200);
}

#[tokio::test]
async fn services_are_found_in_the_journal_or_in_files() {
    let machine = machine(true);
    let start = "--utc\n--no-pager\n--output=short-precise\n";
    for (target, wanted) in [
        (
            "query=kubelet",
            format!("{start}--unit=kubelet\ncomplaint\n"),
        ),
        (
            "query=kubelet&tailLines=2&pattern=x",
            format!("{start}--pager-end\n--lines=2\n--unit=kubelet\n--grep=x\ncomplaint\n"),
        ),
        ("query=syslog", "0123456789".to_owned()),
        ("query=app", "of the app\n".to_owned()),
        ("query=nobody", "\nlog not found for nobody\n".to_owned()),
        (
            "query=out",
            "\nerror getting log for out: openat out: path escapes from parent\n".to_owned(),
        ),
        (
            "query=app&query=kubelet&query=syslog",
            format!("{start}--unit=kubelet\ncomplaint\nof the app\n0123456789"),
        ),
        (
            "query=app&boot=0",
            "\noptions present and query resolved to log files for [app]\ntry without specifying \
             options\n"
                .to_owned(),
        ),
        ("query=app/app.log", "of the app\n".to_owned()),
        ("query=/app/app.log", "of the app\n".to_owned()),
    ] {
        let told = machine.told(&format!("/logs/?{target}"), &[]).await;
        assert_eq!(told, (200, wanted), "{target}");
    }
    let answer = machine.ask("/logs/?query=app", &[]).await;
    let kind = header(&answer, CONTENT_TYPE);
    assert_eq!(kind.as_deref(), Some("text/plain;charset=UTF-8"));
    for (target, wanted) in [
        (
            "/logs/app/?query=kubelet",
            (406, "path not allowed in query mode\n"),
        ),
        (
            "/logs/?tailLines=2",
            (406, "query: Required value: cannot be empty with options\n"),
        ),
        (
            "/logs/?query=kubelet&boot=x",
            (
                400,
                "boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax\n",
            ),
        ),
        (
            "/logs/?query=..%2Fetc%2Fshadow",
            (
                406,
                "query: Invalid value: [\"../etc/shadow\"]: statat ../etc/shadow: path escapes \
                 from parent\n",
            ),
        ),
        (
            "/logs/?query=a%2Fb",
            (
                406,
                "query: Invalid value: [\"a/b\"]: statat a/b: no such file or directory\n",
            ),
        ),
    ] {
        let told = machine.told(target, &[]).await;
        assert_eq!(told, (wanted.0, wanted.1.to_owned()), "{target}");
    }
    // Files are there as before.
    let told = machine.told("/logs/syslog", &[]).await;
    assert_eq!(told, (200, "0123456789".to_owned()));
}

#[tokio::test]
async fn who_takes_gzip_and_nothing_else_gets_it() {
    use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
    let machine = machine(true);
    let answer = machine
        .ask("/logs/?query=app", &[(ACCEPT_ENCODING, "gzip")])
        .await;
    assert_eq!(header(&answer, CONTENT_ENCODING).as_deref(), Some("gzip"));
    let mut text = String::new();
    let packed = bytes(answer).await;
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "of the app\n");
    let answer = machine
        .ask("/logs/?query=app", &[(ACCEPT_ENCODING, "gzip, br")])
        .await;
    assert_eq!(header(&answer, CONTENT_ENCODING), None);
}

#[tokio::test]
async fn a_journal_that_does_not_end_is_ended_whether_somebody_reads_or_not() {
    let machine = machine(true);
    let journal = machine.place.path().join("usr/bin/journalctl");
    let script = "#!/bin/sh\nif [ \"$1\" = --field ]; then echo kubelet.service; exit; fi\n\
                  echo $$ > \"${0%/*}/pid\"; echo begun; exec sleep 1000\n";
    fs::write(journal, script).unwrap();
    let answer = machine.ask("/logs/?query=kubelet", &[]).await;
    let mut body = answer.into_body();
    let begun = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(begun, "begun\n");
    let pid = fs::read_to_string(machine.place.path().join("usr/bin/pid")).unwrap();
    let process = format!("/proc/{}", pid.trim());
    assert!(Path::new(&process).exists());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    let gone = async {
        let lives = || {
            let status = fs::read_to_string(format!("{process}/status"));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        while lives() {
            machine.logs.clock.sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .unwrap();
    assert!(body.frame().await.is_none(), "the time was up");
}
