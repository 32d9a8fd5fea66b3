use proptest::prelude::*;

use super::*;

fn everything() -> Shown {
    Shown {
        since: None,
        timestamps: false,
        stdout: true,
        stderr: true,
        bytes: u64::MAX,
        records: u64::MAX,
    }
}

/// The log in blocks that end where they are told to.
fn printed(shown: Shown, log: &[u8], ends: &[usize]) -> (String, Course) {
    let mut printer = Printer::new(shown);
    let mut out = Vec::new();
    let mut course = Course::More;
    let mut at = 0;
    for end in ends.iter().copied().chain([log.len()]) {
        let end = end.clamp(at, log.len());
        course = printer.push(&log[at..end], &mut out);
        at = end;
        if course != Course::More {
            break;
        }
    }
    if course == Course::More {
        course = printer.finish(&mut out);
    }
    (String::from_utf8_lossy(&out).into_owned(), course)
}

fn whole(shown: Shown, log: &str) -> String {
    printed(shown, log.as_bytes(), &[]).0
}

const LOG: &str = "\
2016-10-06T00:17:09.1Z stdout F one
2016-10-06T00:17:10Z stderr F two
2016-10-06T00:17:11.123456789Z stdout P thr
2016-10-06T00:17:12Z stdout P e
2016-10-06T00:17:13Z stdout F e
nonsense
2016-10-06T00:17:14Z stdout F \n";

#[test]
fn lines_are_shown_without_their_heads_and_joined() {
    assert_eq!(whole(everything(), LOG), "one\ntwo\nthree\n\n");
}

#[test]
fn a_line_has_one_time_however_many_records_it_is_of() {
    let shown = Shown {
        timestamps: true,
        ..everything()
    };
    let wanted = "\
2016-10-06T00:17:09.100000000Z one
2016-10-06T00:17:10.000000000Z two
2016-10-06T00:17:11.123456789Z three
2016-10-06T00:17:14.000000000Z \n";
    assert_eq!(whole(shown, LOG), wanted);
}

#[test]
fn one_output_can_be_shown_alone() {
    let shown = Shown {
        stdout: false,
        ..everything()
    };
    assert_eq!(whole(shown, LOG), "two\n");
    let shown = Shown {
        stderr: false,
        ..everything()
    };
    assert_eq!(whole(shown, LOG), "one\nthree\n\n");
}

#[test]
fn what_is_older_is_left_out_record_by_record() {
    let since = |text: &str| Shown {
        since: Some(Stamp::read(text.as_bytes()).unwrap().moment()),
        ..everything()
    };
    assert_eq!(whole(since("2016-10-06T00:17:10Z"), LOG), "two\nthree\n\n");
    assert_eq!(whole(since("2016-10-06T00:17:12Z"), LOG), "ee\n\n");
    assert_eq!(whole(since("2016-10-06T00:17:14.1Z"), LOG), "");
}

#[test]
fn bytes_and_records_are_counted() {
    for (bytes, wanted) in [(1, "o"), (4, "one\n"), (5, "one\nt"), (999, LOG)] {
        let shown = Shown {
            bytes,
            ..everything()
        };
        let (text, course) = printed(shown, LOG.as_bytes(), &[]);
        if wanted == LOG {
            assert_eq!(course, Course::More);
        } else {
            assert_eq!((text.as_str(), course), (wanted, Course::Done));
        }
    }
    // The time counts, too, and is cut like the rest.
    let shown = Shown {
        bytes: 3,
        timestamps: true,
        ..everything()
    };
    assert_eq!(whole(shown, LOG), "201");
    // What cannot be understood is no record.
    for (records, wanted) in [(0, ""), (1, "one\n"), (5, "one\ntwo\nthree\n")] {
        let shown = Shown {
            records,
            ..everything()
        };
        let outcome = printed(shown, LOG.as_bytes(), &[]);
        assert_eq!(outcome, (wanted.to_owned(), Course::Done));
    }
}

#[test]
fn dockers_lines_are_understood_if_the_first_is_one() {
    let log = "\
{\"log\":\"one\\n\",\"stream\":\"stdout\",\"time\":\"2016-10-20T18:39:20.5Z\"}
{\"log\":\"tw\",\"stream\":\"stderr\",\"time\":\"2016-10-20T18:39:21Z\"}
{\"log\":\"o\\n\",\"stream\":\"stderr\",\"time\":\"2016-10-20T18:39:22Z\"}
2016-10-06T00:17:10Z stderr F not here
{\"log\":\"<&\\u00e9\",\"stream\":\"stdout\",\"time\":\"2016-10-20T18:39:23Z\"}";
    assert_eq!(whole(everything(), log), "one\ntwo\n<&é");
    let shown = Shown {
        timestamps: true,
        stderr: false,
        ..everything()
    };
    let wanted = "2016-10-20T18:39:20.500000000Z one\n2016-10-20T18:39:23.000000000Z <&é";
    assert_eq!(whole(shown, log), wanted);
    let elsewhere = "{\"log\":\"x\",\"stream\":\"x\",\"time\":\"2016-10-20T18:39:23Z\"}\n";
    let (_, course) = printed(everything(), elsewhere.as_bytes(), &[]);
    let why = "unexpected stream type \"x\"";
    assert_eq!(course, Course::Failed(why.to_owned()));
}

#[test]
fn a_log_in_no_form_that_is_known_is_told_of() {
    for (log, quoted) in [
        ("plain\nlines\n", r#""plain\n""#),
        ("{\"log\":", r#""{\"log\":""#),
    ] {
        let (text, course) = printed(everything(), log.as_bytes(), &[]);
        let why = format!("failed to get parse function: unsupported log format: {quoted}");
        assert_eq!(
            (text, course),
            (String::new(), Course::Failed(why)),
            "{log}"
        );
    }
    let endless = "x".repeat(LONGEST_JSON + 1);
    let (_, course) = printed(everything(), endless.as_bytes(), &[5, 2000]);
    assert!(matches!(course, Course::Failed(why) if why.len() < 1000));
}

#[test]
fn of_a_record_that_has_just_been_begun_what_is_there_is_shown() {
    let log = "2016-10-06T00:17:09Z stdout F one\n2016-10-06T00:17:10Z stdout F tw";
    assert_eq!(whole(everything(), log), "one\ntw");
    let log = "2016-10-06T00:17:09Z stdout F one\n2016-10-06T00:17:10Z std";
    assert_eq!(whole(everything(), log), "one\n");
}

#[test]
fn what_a_file_ended_with_does_not_spoil_the_next() {
    let shown = Shown {
        timestamps: true,
        ..everything()
    };
    let next = b"2016-10-06T00:17:10Z stdout F two\n";
    for (last, wanted) in [
        (
            "2016-10-06T00:17:09Z std",
            "2016-10-06T00:17:10.000000000Z two\n",
        ),
        (
            "2016-10-06T00:17:09Z stdout P on",
            "2016-10-06T00:17:09.000000000Z ontwo\n",
        ),
    ] {
        let mut printer = Printer::new(shown);
        let mut out = Vec::new();
        printer.push(last.as_bytes(), &mut out);
        printer.break_off();
        printer.push(next, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), wanted, "{last}");
    }
}

/// Line by line, as upstream reads: slow, and plain.
fn naive(shown: Shown, log: &str) -> String {
    let mut out = String::new();
    let mut at_line_start = true;
    let mut records = 0;
    for line in log.split_inclusive('\n') {
        if records == shown.records || out.len() as u64 == shown.bytes {
            break;
        }
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [time, output, tags, content] = words[..] else {
            continue;
        };
        let Some(stamp) = Stamp::read(time.as_bytes()) else {
            continue;
        };
        if !["stdout", "stderr"].contains(&output) {
            continue;
        }
        let partial = tags.split(':').next() == Some("P");
        let content = if partial {
            content.strip_suffix('\n').unwrap_or(content)
        } else {
            content
        };
        let hidden = output == "stdout" && !shown.stdout || output == "stderr" && !shown.stderr;
        let old = shown.since.is_some_and(|since| stamp.moment() < since);
        if !hidden && !old {
            let mut text = String::new();
            if shown.timestamps && at_line_start {
                let mut written = Vec::new();
                stamp.write(&mut written);
                text = String::from_utf8(written).unwrap();
            }
            text += content;
            let left = usize::try_from(shown.bytes - out.len() as u64).unwrap_or(usize::MAX);
            out += &text[..text.len().min(left)];
        }
        at_line_start = content.is_empty() || content.ends_with('\n');
        records += 1;
    }
    out
}

fn record() -> impl Strategy<Value = String> {
    let tags = prop_oneof![Just("F"), Just("P"), Just("F:x"), Just("P:F"), Just("")];
    let output = prop_oneof![8 => Just("stdout"), 4 => Just("stderr"), 1 => Just("stdin")];
    let time = prop_oneof![
        9 => (0..60u32, "(\\.[0-9]{1,9})?").prop_map(|(second, fraction)| format!(
            "2016-10-06T00:17:{second:02}{fraction}Z"
        )),
        1 => Just("yesterday".to_owned()),
    ];
    let record = (time, output, tags, "[a-z ]{0,20}")
        .prop_map(|(time, output, tags, content)| format!("{time} {output} {tags} {content}\n"));
    prop_oneof![12 => record, 1 => Just("torn\n".to_owned()), 1 => Just("\n".to_owned())]
}

fn log() -> impl Strategy<Value = String> {
    let records = prop::collection::vec(record(), 0..30);
    (records, any::<prop::sample::Index>()).prop_map(|(records, cut)| {
        // The first line decides which form a log is in.
        let log = format!("2016-10-06T00:17:00Z stdout F first\n{}", records.concat());
        // A third of them end in the middle of a record.
        let end = cut.index(log.len() * 3);
        log[..if end < 36 {
            log.len()
        } else {
            end.min(log.len())
        }]
            .to_owned()
    })
}

fn shown() -> impl Strategy<Value = Shown> {
    let bytes = prop_oneof![Just(u64::MAX), 1..200u64];
    let records = prop_oneof![Just(u64::MAX), 0..20u64];
    let since = prop::option::of(0..60i64);
    (since, any::<[bool; 3]>(), bytes, records).prop_map(
        |(since, [timestamps, stdout, stderr], bytes, records)| Shown {
            since: since.map(|second| Moment {
                seconds: 1_475_713_020 + second,
                nanos: 500_000_000,
            }),
            timestamps,
            stdout,
            stderr,
            bytes,
            records,
        },
    )
}

proptest! {
    #[test]
    fn wherever_blocks_end_the_same_is_shown(
        log in log(),
        shown in shown(),
        mut ends in prop::collection::vec(0..2000usize, 0..40),
    ) {
        ends.sort_unstable();
        let wanted = naive(shown, &log);
        prop_assert_eq!(&printed(shown, log.as_bytes(), &[]).0, &wanted);
        prop_assert_eq!(&printed(shown, log.as_bytes(), &ends).0, &wanted);
        let each: Vec<usize> = (0..log.len()).collect();
        prop_assert_eq!(&printed(shown, log.as_bytes(), &each).0, &wanted);
    }

    #[test]
    fn no_bytes_are_too_much_for_it(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..10),
        shown in shown(),
    ) {
        let mut printer = Printer::new(shown);
        let mut out = Vec::new();
        let more = |block: &Vec<u8>| printer.push(block, &mut out) == Course::More;
        if blocks.iter().all(more) {
            printer.finish(&mut out);
        }
    }
}
