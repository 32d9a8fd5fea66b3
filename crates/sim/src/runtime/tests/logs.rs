//! What containers print.

use std::fs;
use std::path::Path;
use std::pin::Pin;

use super::*;
use crate::runtime::Logs;

#[tokio::test(start_paused = true)]
async fn lines_come_as_time_goes_by_until_the_end() {
    let rig = Rig::new();
    let notes = [("log-lines", "2/s"), ("run-time", "2s")];
    let (_, container) = rig.running(&notes).await;
    let began = rig.status(&container).await.unwrap().started_at;
    let lines = |from, most| rig.runtime.log_lines(&container, from, most);
    for (pass, expected) in [(0, 1), (499, 1), (1, 2), (500, 3), (60_000, 5)] {
        rig.pass(Duration::from_millis(pass)).await;
        assert_eq!(lines(0, 100).len(), expected);
    }
    let line = &lines(3, 1)[0];
    assert_eq!(line.text, "simulated line 4");
    let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(began.unsigned_abs());
    assert_eq!(line.at, began + Duration::from_millis(1500));
    assert_eq!(rig.runtime.log_lines("nobody", 0, 9), []);
}

#[tokio::test(start_paused = true)]
async fn a_text_is_printed_at_the_start() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("log-lines", "hello\nworld")]).await;
    let lines = rig.runtime.log_lines(&container, 0, 9);
    let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["hello", "world"]);
}

/// A pod whose logs are in a directory that is really there.
async fn logging(rig: &Rig, directory: &Path, notes: &[(&str, &str)]) -> String {
    rig.pull().await;
    let mut config = pod_config("web", notes);
    config.log_directory = directory.join("pods/web").display().to_string();
    let request = cri::RunPodSandboxRequest {
        config: Some(config),
        runtime_handler: String::new(),
    };
    let pod = rig.runtime.run_pod_sandbox(request).await.unwrap();
    let container = rig.create(&pod.pod_sandbox_id, "app").await.unwrap();
    rig.start(&container).await.unwrap();
    container
}

#[tokio::test(start_paused = true)]
async fn files_have_the_lines_in_the_format_of_cri() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::shaped(RuntimeShape {
        logs: Logs::Files,
        pull_delay: Duration::ZERO,
        ..RuntimeShape::default()
    });
    let notes = [("log-lines", "1/s"), ("run-time", "3s")];
    let look = async {
        let container = logging(&rig, directory.path(), &notes).await;
        let path = directory.path().join("pods/web/app/0.log");
        rig.pass(Duration::from_millis(1500)).await;
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "2027-01-15T08:00:00.000000000Z stdout F simulated line 1\n\
             2027-01-15T08:00:01.000000000Z stdout F simulated line 2\n"
        );
        let moved = path.with_extension("log.1");
        fs::rename(&path, &moved).unwrap();
        let reopen = || cri::ReopenContainerLogRequest {
            container_id: container.clone(),
        };
        rig.runtime.reopen_container_log(reopen()).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        rig.pass(10 * SECOND).await;
        assert_eq!(fs::read_to_string(&moved).unwrap(), text);
        let rest = fs::read_to_string(&path).unwrap();
        assert!(rest.ends_with("simulated line 4\n"), "{rest}");
        assert_eq!(rest.lines().count(), 2);
        let refused = rig.runtime.reopen_container_log(reopen()).await;
        assert_eq!(code(refused), Some(Code::Unknown));
    };
    rig.runtime.keep_logs(look).await;
}

#[tokio::test(start_paused = true)]
async fn on_the_runtimes_machine_a_log_is_read_as_if_it_were_a_file() {
    let rig = Rig::shaped(RuntimeShape {
        pull_delay: Duration::ZERO,
        ..RuntimeShape::default()
    });
    let notes = [("log-lines", "1/s"), ("run-time", "3s")];
    logging(&rig, Path::new("/var/log"), &notes).await;
    let path = Path::new("/var/log/pods/web/app/0.log");
    rig.pass(Duration::from_millis(1500)).await;
    assert!(
        rig.runtime
            .printed_at(Path::new("/var/log/other"))
            .is_none()
    );
    let log = rig.runtime.printed_at(path).unwrap();
    let text = log.read_at(0, 1000).await.unwrap();
    let wanted = "2027-01-15T08:00:00.000000000Z stdout F simulated line 1\n\
                  2027-01-15T08:00:01.000000000Z stdout F simulated line 2\n";
    assert_eq!(String::from_utf8(text).unwrap(), wanted);
    assert_eq!(log.facts().unwrap().size, wanted.len() as u64);
    rig.pass(10 * SECOND).await;
    let more = log.read_at(wanted.len() as u64, 1000).await.unwrap();
    assert!(more.ends_with(b"simulated line 4\n"));
}

#[tokio::test(start_paused = true)]
async fn what_is_due_at_the_end_is_written_and_a_log_without_lines_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::shaped(RuntimeShape {
        logs: Logs::Files,
        ..RuntimeShape::default()
    });
    let path = directory.path().join("pods/web/app/0.log");
    logging(&rig, directory.path(), &[("log-lines.other", "1/s")]).await;
    // Whoever runs a server spawns this.
    let keeping: Pin<Box<dyn Future<Output = ()> + Send>> =
        Box::pin(rig.runtime.keep_logs(std::future::ready(())));
    keeping.await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "");

    let rig = Rig::shaped(RuntimeShape {
        logs: Logs::Files,
        ..RuntimeShape::default()
    });
    let work = async {
        logging(&rig, directory.path(), &[("log-lines", "hello")]).await;
    };
    rig.runtime.keep_logs(work).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with(" stdout F hello\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_where_logs_go_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::new();
    let look = async {
        logging(&rig, directory.path(), &[("log-lines", "1/s")]).await;
        rig.pass(5 * SECOND).await;
    };
    rig.runtime.keep_logs(look).await;
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
