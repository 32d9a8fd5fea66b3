use std::fs;
use std::time::Duration;

use super::*;
use crate::testing::credential;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 789)
}

fn on_disk() -> (tempfile::TempDir, Arc<Records>) {
    let root = tempfile::tempdir().unwrap();
    let records = Records::on_disk(root.path()).unwrap();
    (root, Arc::new(records))
}

fn files(root: &tempfile::TempDir, kind: &str) -> Vec<String> {
    let directory = root.path().join("image_manager").join(kind);
    let entries = fs::read_dir(directory).unwrap();
    let contents = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    contents.collect()
}

#[test]
fn files_have_the_kubelets_content() {
    let (root, records) = on_disk();
    let mut intent = records.intend("r.io/app:1", None).unwrap();
    assert_eq!(
        files(&root, "pulling"),
        [concat!(
            r#"{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","#,
            r#""image":"r.io/app:1"}"#,
            "\n"
        )]
    );
    intent.begun();
    let credential = credential("team", "u");
    intent
        .pulled("sha256:1", Some(&credential), at(60))
        .unwrap();
    assert_eq!(files(&root, "pulling"), Vec::<String>::new());
    let hash = credential.login.hash();
    let expected = format!(
        concat!(
            r#"{{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","#,
            r#""lastUpdatedTime":"1970-01-01T00:01:00Z","imageRef":"sha256:1","credentialMapping":"#,
            r#"{{"r.io/app":{{"kubernetesSecrets":[{{"uid":"uid-team","namespace":"ns","#,
            r#""name":"team","credentialHash":"{hash}"}}]}}}}}}"#,
            "\n"
        ),
        hash = hash
    );
    assert_eq!(files(&root, "pulled"), [expected]);
}

#[test]
fn an_image_is_known_from_its_intent_on() {
    for records in [on_disk().1, Arc::new(Records::in_memory())] {
        let known = || records.known("r.io/app", "sha256:1").unwrap();
        assert_eq!(known(), Known::Nothing);
        let intent = records.intend("r.io/app", None).unwrap();
        assert_eq!(known(), Known::Intended);
        intent.pulled("sha256:1", None, at(1)).unwrap();
        let Known::Pulled(record) = known() else {
            panic!("not recorded");
        };
        assert!(record.credentials["r.io/app"].node_pods_accessible);
    }
}

#[test]
fn an_intent_ends_with_the_last_of_its_pulls() {
    let (root, records) = on_disk();
    let first = records.intend("r.io/app", None).unwrap();
    let second = records.intend("r.io/app", None).unwrap();
    first.failed(false);
    assert_eq!(files(&root, "pulling").len(), 1);
    second.failed(false);
    assert_eq!(files(&root, "pulling").len(), 0);
}

#[test]
fn a_pull_that_is_given_up_leaves_its_intent_only_once_the_runtime_was_asked() {
    let (root, records) = on_disk();
    drop(records.intend("r.io/app", None).unwrap());
    assert_eq!(files(&root, "pulling").len(), 0);
    let mut intent = records.intend("r.io/app", None).unwrap();
    intent.begun();
    drop(intent);
    assert_eq!(files(&root, "pulling").len(), 1);
    assert_eq!(
        records.known("r.io/app", "sha256:1").unwrap(),
        Known::Intended
    );
}

#[test]
fn an_intent_of_a_pull_that_was_cut_off_outlives_the_failures_of_others() {
    let records = on_disk().1;
    let cut_off = || {
        let mut intent = records.intend("r.io/app", None).unwrap();
        intent.begun();
        drop(intent);
    };
    let intend = || records.intend("r.io/app", None).unwrap();
    let known = || records.known("r.io/app", "sha256:1").unwrap();
    cut_off();
    assert!(intend().follows_one_cut_off());
    intend().failed(false);
    assert_eq!(known(), Known::Intended);
    // Nor does it matter that one of them was under way before, or did not get its turn.
    let before = intend();
    cut_off();
    before.failed(false);
    drop(intend());
    assert_eq!(known(), Known::Intended);
    // What is not there after all has not come.
    intend().failed(true);
    assert_eq!(known(), Known::Nothing);
    assert!(!intend().follows_one_cut_off());
    // What was recorded is known.
    cut_off();
    intend().pulled("sha256:2", None, at(1)).unwrap();
    assert_eq!(known(), Known::Nothing);
}

#[test]
fn what_was_there_before_a_pull_that_was_cut_off_is_still_everybodys() {
    let (root, records) = on_disk();
    let (image, preloaded, later) = ("r.io/app", "sha256:1", "sha256:2");
    let mut intent = records.intend(image, Some(preloaded)).unwrap();
    intent.begun();
    drop(intent);
    let known = |records: &Records, image_ref| records.known(image, image_ref).unwrap();
    assert_eq!(known(&records, preloaded), Known::Nothing);
    assert_eq!(known(&records, later), Known::Intended);
    // The next run finds it as it was.
    let after = Arc::new(Records::on_disk(root.path()).unwrap());
    after.adopt(image, preloaded, at(2)).unwrap();
    assert_eq!(known(&after, preloaded), Known::Nothing);
    assert_eq!(known(&after, later), Known::Intended);
    // So do others that fail, or are cut off.
    after.intend(image, Some(preloaded)).unwrap().failed(false);
    assert_eq!(known(&after, preloaded), Known::Nothing);
    // What such a pull has brought is nobody's.
    after.intend(image, Some(later)).unwrap().failed(false);
    assert_eq!(known(&after, later), Known::Intended);
    after.adopt(image, later, at(3)).unwrap();
    assert!(matches!(known(&after, later), Known::Pulled(_)));
    assert_eq!(files(&root, "preloaded"), Vec::<String>::new());
}

#[test]
fn what_a_crash_left_behind_is_adopted_without_credentials() {
    let (root, records) = on_disk();
    let mut intent = records.intend("r.io/app", None).unwrap();
    intent.begun();
    assert_eq!(
        records.left_behind().unwrap(),
        Vec::<String>::new(),
        "under way"
    );
    drop(intent);
    let after = Records::on_disk(root.path()).unwrap();
    assert_eq!(after.left_behind().unwrap(), ["r.io/app"]);
    after.adopt("r.io/app", "sha256:1", at(2)).unwrap();
    assert_eq!(after.left_behind().unwrap(), Vec::<String>::new());
    let Known::Pulled(record) = after.known("r.io/app", "sha256:1").unwrap() else {
        panic!("not recorded");
    };
    assert!(record.credentials.is_empty());
}

#[test]
fn a_record_gathers_secrets_until_everybody_may() {
    let records = Records::in_memory();
    let add = |credential: Option<&Credential>, now| {
        let image = "r.io/app:1";
        records.add(image, "sha256:1", credential, now).unwrap();
        match records.known(image, "sha256:1").unwrap() {
            Known::Pulled(record) => record,
            other => panic!("{other:?}"),
        }
    };
    let secrets = |record: &PulledRecord| {
        let held = &record.credentials["r.io/app"].kubernetes_secrets;
        let pairs = held
            .iter()
            .map(|it| (it.name.clone(), it.credential_hash.clone()));
        pairs.collect::<Vec<_>>()
    };
    let (b, a, a2) = (
        credential("b", "1"),
        credential("a", "2"),
        credential("a", "3"),
    );
    let pair = |name: &str, of: &Credential| (name.to_owned(), of.login.hash());
    add(Some(&b), at(1));
    assert_eq!(
        secrets(&add(Some(&a), at(2))),
        [pair("a", &a), pair("b", &b)]
    );
    let record = add(Some(&a2), at(3));
    assert_eq!(secrets(&record), [pair("a", &a2), pair("b", &b)]);
    // Nothing new: not even the time changes.
    assert_eq!(add(Some(&a2), at(9)), record);
    let record = add(None, at(4));
    assert_eq!(record.credentials["r.io/app"], PullCredentials::everybody());
    assert_eq!(add(Some(&b), at(9)), record);
}

#[test]
fn service_accounts_of_an_upstream_record_are_kept() {
    let (root, records) = on_disk();
    records
        .add("r.io/app", "sha256:1", Some(&credential("a", "1")), at(1))
        .unwrap();
    let directory = root.path().join("image_manager/pulled");
    let path = fs::read_dir(directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let upstream = concat!(
        r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1alpha1","#,
        r#""lastUpdatedTime":null,"imageRef":"sha256:1","credentialMapping":{"r.io/app":"#,
        r#"{"kubernetesServiceAccounts":[{"uid":"u","namespace":"n","name":"s"}]}}}"#
    );
    fs::write(&path, upstream).unwrap();
    records
        .add("r.io/app", "sha256:1", Some(&credential("a", "1")), at(2))
        .unwrap();
    let written = fs::read_to_string(&path).unwrap();
    assert!(
        written.contains(r#""kubernetesServiceAccounts":[{"uid":"u""#),
        "{written}"
    );
    assert!(written.contains(r#""name":"a""#), "{written}");
    assert!(written.contains("v1beta1"), "{written}");
}

#[test]
fn a_record_that_cannot_be_read_is_an_error_that_names_its_file() {
    let (root, records) = on_disk();
    records.add("r.io/app", "sha256:1", None, at(1)).unwrap();
    let directory = root.path().join("image_manager/pulled");
    let path = fs::read_dir(directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for content in [
        "{",
        r#"{"kind":"Pod","apiVersion":"v1","imageRef":"x","lastUpdatedTime":null}"#,
    ] {
        fs::write(&path, content).unwrap();
        let error = records
            .known("r.io/app", "sha256:1")
            .unwrap_err()
            .to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    // The next pull makes it anew.
    records.add("r.io/app", "sha256:1", None, at(1)).unwrap();
    assert!(matches!(
        records.known("r.io/app", "sha256:1"),
        Ok(Known::Pulled(_))
    ));
}

#[test]
fn an_intent_is_found_among_the_names_that_a_runtime_lists() {
    for (intended, listed, expected) in [
        ("busybox", "docker.io/library/busybox:latest", true),
        ("r.io/app:1", "r.io/app:1", true),
        ("r.io/app:1", "r.io/app:2", false),
        ("r.io/app", "r.io/app:1", false),
    ] {
        let found = is_listed(intended, &[listed.to_owned()]);
        assert_eq!(found, expected, "{intended} in {listed}");
    }
}
