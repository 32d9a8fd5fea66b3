use std::fs;

use rustls::crypto::ring::default_provider;
use tempfile::TempDir;

use super::*;
use crate::testdata::{at, pair};

fn files(root: &TempDir) -> GivenFiles {
    GivenFiles {
        certificate: root.path().join("tls.crt"),
        key: root.path().join("tls.key"),
    }
}

fn put(files: &GivenFiles, pair: &Pair) {
    fs::write(&files.certificate, pair.certificate_pem()).unwrap();
    fs::write(&files.key, pair.key().to_pem().unwrap()).unwrap();
}

fn serve(files: &GivenFiles) -> Result<FollowedFiles, GivenError> {
    let provider = Arc::new(default_provider());
    files.clone().serve(provider, watch::channel(None).0)
}

fn shown(followed: &FollowedFiles) -> Vec<u8> {
    let published = followed.published.borrow();
    published.as_ref().unwrap().cert[0].to_vec()
}

#[test]
fn files_that_cannot_be_served_at_the_start_are_an_error_that_names_them() {
    let root = tempfile::tempdir().unwrap();
    let files = files(&root);
    let error = serve(&files).unwrap_err().to_string();
    assert!(error.contains("tlsCertFile"), "{error}");
    assert!(error.contains("tls.crt: No such file"), "{error}");

    put(&files, &pair("a", at(0), 9));
    let other = pair("b", at(0), 9).key().to_pem().unwrap();
    fs::write(&files.key, other).unwrap();
    let error = serve(&files).unwrap_err().to_string();
    assert!(
        error.contains("tls.crt") && error.contains("tls.key"),
        "{error}"
    );
    assert!(error.contains("does not belong"), "{error}");
}

#[test]
fn a_problem_is_told_once_and_another_one_again() {
    let root = tempfile::tempdir().unwrap();
    let files = files(&root);
    let first = pair("first", at(0), 9);
    put(&files, &first);
    let mut followed = serve(&files).unwrap();
    assert_eq!(followed.look(), Look::Nothing);
    let mut told = |expected: &str| {
        let Look::Wrong(problem) = followed.look() else {
            panic!("nothing is told, expected: {expected}")
        };
        assert!(problem.contains(expected), "{problem}");
        assert_eq!(followed.look(), Look::Nothing, "once is enough");
        assert_eq!(shown(&followed), first.chain()[0].to_vec());
    };
    let second = pair("second", at(0), 9);
    fs::write(&files.certificate, second.certificate_pem()).unwrap();
    told("does not belong");
    fs::remove_file(&files.key).unwrap();
    told("tls.key: No such file");
    put(&files, &first);
    assert_eq!(followed.look(), Look::Nothing, "all is as it was");
    fs::remove_file(&files.key).unwrap();
    let again = followed.look();
    assert!(matches!(again, Look::Wrong(_)), "after it had gone away");
    put(&files, &second);
    assert_eq!(followed.look(), Look::TakenUp);
    assert_eq!(shown(&followed), second.chain()[0].to_vec());
}

#[test]
fn a_half_written_file_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let files = files(&root);
    let first = pair("first", at(0), 9);
    put(&files, &first);
    let mut followed = serve(&files).unwrap();
    let second = pair("second", at(0), 9);
    put(&files, &second);
    let whole = second.key().to_pem().unwrap();
    for length in [0, 1, whole.len() / 2, whole.len() - 20] {
        fs::write(&files.key, &whole[..length]).unwrap();
        followed.look();
        assert_eq!(shown(&followed), first.chain()[0].to_vec(), "{length}");
    }
}
