use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio_util::sync::CancellationToken;

use crate::body::Body;
use crate::logs::testing::Node;

/// What is shown of the container `main`.
async fn shown(node: &Node, query: &str) -> (StatusCode, String) {
    let answer = node.logs.answer("shop", "web", "main", query);
    let status = answer.status();
    (status, text(answer.into_body()).await)
}

async fn text(body: Body) -> String {
    let body = body.collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

fn numbered(lines: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    lines.map(|line| format!("line {line}"))
}

fn written(lines: std::ops::Range<u32>) -> String {
    numbered(lines).map(|line| line + "\n").collect()
}

#[tokio::test]
async fn a_log_is_shown_whole_or_from_its_end() {
    let node = Node::new(false);
    node.print(numbered(0..5000));
    let ok = |text: String| (StatusCode::OK, text);
    assert_eq!(shown(&node, "").await, ok(written(0..5000)));
    assert_eq!(shown(&node, "tailLines=3").await, ok(written(4997..5000)));
    assert_eq!(shown(&node, "tailLines=0").await, ok(String::new()));
    assert_eq!(shown(&node, "limitBytes=9").await, ok("line 0\nli".into()));
    let stamped = "2016-10-06T00:17:09.500000000Z line 4999\n";
    let query = "tailLines=1&timestamps=true";
    assert_eq!(shown(&node, query).await, ok(stamped.into()));
    // It is 00:17:20 there.
    assert_eq!(shown(&node, "sinceSeconds=10").await, ok(String::new()));
    let all = shown(&node, "sinceSeconds=12").await;
    assert_eq!(all, ok(written(0..5000)));
}

#[tokio::test]
async fn the_run_before_has_a_log_of_its_own() {
    let node = Node::new(false);
    node.print(numbered(0..1));
    fs::write(node.log(0), "2016-10-06T00:17:09Z stdout F before\n").unwrap();
    let (_, text) = shown(&node, "previous=true").await;
    assert_eq!(text, "before\n");
}

#[tokio::test]
async fn what_fails_once_all_was_said_to_be_well_is_told_in_the_text() {
    let node = Node::new(false);
    let path = node.log(1);
    let (status, text) = shown(&node, "").await;
    let path = path.display();
    let wanted = format!(
        "failed to try resolving symlinks in path \"{path}\": lstat {path}: no such file or directory"
    );
    assert_eq!((status, text), (StatusCode::OK, wanted));
    let answer = node.logs.answer("shop", "web", "broken", "");
    assert_eq!(answer.status(), StatusCode::OK);
    let wanted = "unable to retrieve container logs for containerd://gone";
    assert_eq!(self::text(answer.into_body()).await, wanted);
    fs::write(node.log(1), "plain text\n").unwrap();
    let (_, text) = shown(&node, "").await;
    assert!(text.contains("unsupported log format"), "{text}");
}

#[tokio::test]
async fn no_link_leads_out_of_the_logs() {
    let node = Node::new(false);
    symlink(node.secret(), node.log(1)).unwrap();
    let (_, text) = shown(&node, "").await;
    assert!(text.contains("leads out"), "{text}");
    fs::remove_file(node.log(1)).unwrap();
    // Below the root it may lead where it likes.
    fs::write(node.log(7), "2016-10-06T00:17:09Z stdout F here\n").unwrap();
    symlink(node.log(7), node.log(1)).unwrap();
    assert_eq!(shown(&node, "").await.1, "here\n");
}

/// Reads until so many lines are there.
async fn read_lines(body: &mut Body, so_far: &mut String, lines: usize) {
    let limit = Duration::from_secs(30);
    while so_far.lines().count() < lines || !so_far.ends_with('\n') {
        let frame = tokio::time::timeout(limit, body.frame()).await;
        let frame = frame.unwrap_or_else(|_| panic!("stuck behind {so_far:?}"));
        let frame = frame.expect("it goes on").unwrap().into_data().unwrap();
        so_far.push_str(std::str::from_utf8(&frame).unwrap());
    }
}

/// Listens beside a test.
async fn listening(node: &Node, test: impl Future<Output = ()>) {
    let shutdown = CancellationToken::new();
    let test = async {
        test.await;
        shutdown.cancel();
    };
    tokio::join!(node.logs.listen(shutdown.clone()), test);
}

#[tokio::test]
async fn a_log_is_followed_over_rotations_to_the_containers_end() {
    let node = Node::new(false);
    node.print(numbered(0..10));
    listening(&node, async {
        let answer = node
            .logs
            .answer("shop", "web", "main", "follow=true&tailLines=2");
        let (mut body, mut text) = (answer.into_body(), String::new());
        read_lines(&mut body, &mut text, 2).await;
        let mut line = 10;
        // The runtime may be slow to make the next file.
        for (rotation, slow) in [70, 70, 350].into_iter().enumerate() {
            for _ in 0..3 {
                node.print(numbered(line..line + 1));
                line += 1;
                read_lines(&mut body, &mut text, line as usize - 8).await;
            }
            // Under another name it is written to until there is a new one, and then
            // some more: the runtime is not done with it at once.
            let mut old = fs::OpenOptions::new();
            let mut old = old.append(true).open(node.log(1)).unwrap();
            let aside = 100 + u32::try_from(rotation).unwrap();
            fs::rename(node.log(1), node.log(aside)).unwrap();
            let late = |line: u32| format!("2016-10-06T00:17:09Z stdout F line {line}\n");
            let clock = &node.logs.sources.clock;
            let writing = async {
                clock.sleep(Duration::from_millis(slow)).await;
                std::io::Write::write_all(&mut old, late(line).as_bytes()).unwrap();
                node.print(numbered(line + 2..line + 3));
                clock.sleep(Duration::from_millis(70)).await;
                std::io::Write::write_all(&mut old, late(line + 1).as_bytes()).unwrap();
            };
            let lines = line as usize + 3 - 8;
            tokio::join!(writing, read_lines(&mut body, &mut text, lines));
            line += 3;
        }
        node.print(numbered(line..line + 5));
        node.end();
        let rest = body.collect().await.unwrap().to_bytes();
        text.push_str(std::str::from_utf8(&rest).unwrap());
        assert_eq!(text, written(8..line + 5));
    })
    .await;
}

/// Rotates the log as a node does: under the name of a time, those before it packed.
fn rotate(node: &Node, second: u32) {
    let aside = |second: u32| {
        let name = format!("1.log.20161006-0017{second:02}");
        node.log(1).with_file_name(name)
    };
    fs::rename(node.log(1), aside(second)).unwrap();
    let before = aside(second - 1);
    if let Ok(content) = fs::read(&before) {
        let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packing, &content).unwrap();
        let packed = format!("{}.gz", before.display());
        fs::write(packed, packing.finish().unwrap()).unwrap();
        fs::remove_file(before).unwrap();
    }
}

#[tokio::test]
async fn who_is_rotations_behind_misses_nothing() {
    for rotations in 1..=4 {
        let node = Node::new(false);
        // Of before: nothing for who comes now.
        node.print(numbered(900..910));
        rotate(&node, 1);
        node.print(numbered(0..10));
        let answer = node.logs.answer("shop", "web", "main", "follow=true");
        let (mut body, mut text) = (answer.into_body(), String::new());
        read_lines(&mut body, &mut text, 10).await;
        let mut line = 10;
        for rotation in 0..rotations {
            node.print(numbered(line..line + 3));
            rotate(&node, 2 + rotation);
            line += 3;
        }
        node.print(numbered(line..line + 3));
        node.end();
        let rest = tokio::time::timeout(Duration::from_secs(30), body.collect()).await;
        let rest = rest.unwrap().unwrap().to_bytes();
        text.push_str(std::str::from_utf8(&rest).unwrap());
        assert_eq!(text, written(0..line + 3), "{rotations} rotations");
    }
}

#[tokio::test]
async fn who_is_so_far_behind_that_files_are_gone_goes_on_with_the_oldest() {
    let node = Node::new(false);
    node.print(numbered(0..2));
    let answer = node.logs.answer("shop", "web", "main", "follow=true");
    let (mut body, mut text) = (answer.into_body(), String::new());
    read_lines(&mut body, &mut text, 2).await;
    for second in 2..5 {
        rotate(&node, second);
        node.print(numbered(second..second + 1));
    }
    fs::remove_file(node.log(1).with_file_name("1.log.20161006-001702.gz")).unwrap();
    node.end();
    let rest = tokio::time::timeout(Duration::from_secs(30), body.collect()).await;
    let rest = rest.unwrap().unwrap().to_bytes();
    text.push_str(std::str::from_utf8(&rest).unwrap());
    assert_eq!(text, written(0..5));
}

#[tokio::test]
async fn a_line_comes_at_once_and_without_the_machines_hints_a_little_later() {
    let node = Node::new(false);
    node.print(numbered(0..1));
    let answer = node.logs.answer("shop", "web", "main", "follow=true");
    let (mut body, mut text) = (answer.into_body(), String::new());
    read_lines(&mut body, &mut text, 1).await;
    node.print(numbered(1..2));
    // Nobody listens: the next look finds it.
    read_lines(&mut body, &mut text, 2).await;
    listening(&node, async {
        node.print(numbered(2..3));
        read_lines(&mut body, &mut text, 3).await;
        let began = tokio::time::Instant::now();
        for line in 3..13 {
            node.print(numbered(line..line + 1));
            read_lines(&mut body, &mut text, line as usize + 1).await;
        }
        // Ten looks from time to time would take ten seconds.
        assert!(began.elapsed() < Duration::from_secs(5));
    })
    .await;
    assert_eq!(text, written(0..13));
}

#[tokio::test]
async fn a_log_that_was_cut_short_is_read_from_its_beginning() {
    let node = Node::new(false);
    node.print(numbered(0..3));
    let answer = node.logs.answer("shop", "web", "main", "follow=true");
    let (mut body, mut text) = (answer.into_body(), String::new());
    read_lines(&mut body, &mut text, 3).await;
    fs::write(node.log(1), "").unwrap();
    node.print(numbered(3..4));
    read_lines(&mut body, &mut text, 4).await;
    assert_eq!(text, written(0..4));
}

#[tokio::test]
async fn a_container_that_has_ended_is_not_waited_for() {
    let node = Node::new(false);
    node.print(numbered(0..3));
    node.end();
    let limit = Duration::from_millis(900);
    let shown = tokio::time::timeout(limit, shown(&node, "follow=true")).await;
    assert_eq!(shown.unwrap().1, written(0..3));
}

/// Every pause is a moment of a paused clock: ten thousand of them wait on no thread.
#[tokio::test]
async fn many_follow_and_whoever_goes_leaves_nothing() {
    let node = Node::new(false);
    node.print(numbered(0..1));
    listening(&node, async {
        let mut bodies = Vec::new();
        for _ in 0..1000 {
            let answer = node.logs.answer("shop", "web", "main", "follow=true");
            let (mut body, mut text) = (answer.into_body(), String::new());
            read_lines(&mut body, &mut text, 1).await;
            bodies.push((body, text));
        }
        assert!(threads() < 50, "{} threads", threads());
        node.print(numbered(1..2));
        for (body, text) in &mut bodies {
            read_lines(body, text, 2).await;
        }
        drop(bodies);
        let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|one| {
            let target = fs::read_link(one.ok()?.path()).ok()?;
            Some(target == node.log(1))
        });
        assert_eq!(open.filter(|is_log| *is_log).count(), 0);
        assert!(!node.logs.is_followed());
    })
    .await;
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}
