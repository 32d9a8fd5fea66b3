use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::testdata::at;

const NOW: u64 = 1_800_000_000;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_pair_names_the_host_for_a_year_and_is_signed_by_a_ca_that_follows_it() {
    let pair = self_signed("n1", at(NOW)).unwrap();
    let leaves = certificate::read_leaves(pair.certificate_pem().as_bytes()).unwrap();
    let [leaf, ca] = &leaves[..] else {
        panic!("leaf and CA: {leaves:?}")
    };
    assert_eq!(leaf.common_name, format!("n1@{NOW}"));
    assert_eq!(ca.common_name, format!("n1-ca@{NOW}"));
    assert_eq!(leaf.dns_names, ["n1"]);
    assert!(leaf.addresses.is_empty());
    for certificate in [leaf, ca] {
        assert_eq!(certificate.not_before, at(NOW - 3600));
        assert_eq!(certificate.not_after, at(NOW - 3600 + 365 * 86_400));
    }
}

#[test]
fn a_host_that_is_an_address_is_named_as_one() {
    let leaf = self_signed("192.0.2.7", at(NOW)).unwrap().leaf().clone();
    assert!(leaf.dns_names.is_empty());
    assert_eq!(
        leaf.addresses,
        ["192.0.2.7".parse::<std::net::IpAddr>().unwrap()]
    );
}

#[test]
fn a_clock_without_a_date_and_a_name_without_ascii_are_errors() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let cases = [
        ("n1", before, "the clock is before 1970"),
        (
            "n1",
            at(400_000_000_000),
            "the clock is after the year 9999",
        ),
        ("knöten", at(NOW), "a certificate takes ASCII names only"),
    ];
    for (host, now, expected) in cases {
        let error = self_signed(host, now).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(host), "{error}");
    }
}

#[test]
fn the_pair_is_made_once_and_kept_even_when_it_has_expired() {
    let root = tempfile::tempdir().unwrap();
    let files = ServingFiles::in_directory(&root.path().join("pki"));
    let made = files.obtain("n1", at(NOW)).unwrap();
    assert_eq!(mode(&files.certificate), 0o644);
    assert_eq!(mode(&files.key), 0o600);
    let key = fs::read_to_string(&files.key).unwrap();
    assert!(key.starts_with("-----BEGIN EC PRIVATE KEY-----"));
    let much_later = files.obtain("n2", at(NOW * 2)).unwrap();
    assert_eq!(made.chain(), much_later.chain());
    let names = fs::read_dir(root.path().join("pki")).unwrap().count();
    assert_eq!(names, 2, "nothing is left lying about");
}

#[test]
fn one_file_without_the_other_is_an_error() {
    for lost in ["kubelet.crt", "kubelet.key"] {
        let root = tempfile::tempdir().unwrap();
        let files = ServingFiles::in_directory(root.path());
        files.obtain("n1", at(NOW)).unwrap();
        fs::remove_file(root.path().join(lost)).unwrap();
        let error = files.obtain("n1", at(NOW)).unwrap_err().to_string();
        assert!(
            error.contains(lost) && error.contains("cannot be read"),
            "{error}"
        );
    }
}

#[test]
fn halves_that_do_not_match_are_an_error() {
    let root = tempfile::tempdir().unwrap();
    let files = ServingFiles::in_directory(root.path());
    files.obtain("n1", at(NOW)).unwrap();
    let other = PrivateKey::generate().unwrap().to_pem().unwrap();
    fs::write(&files.key, other).unwrap();
    let error = files.obtain("n1", at(NOW)).unwrap_err().to_string();
    assert!(error.contains("does not belong"), "{error}");
}

#[test]
fn a_node_killed_while_making_the_pair_has_one_at_the_next_start() {
    let steps_of = |files: &ServingFiles| {
        let pair = self_signed("n1", at(NOW)).unwrap();
        files
            .plan(pair.certificate_pem(), pair.key().to_pem().unwrap())
            .unwrap()
    };
    let root = tempfile::tempdir().unwrap();
    let count = steps_of(&ServingFiles::in_directory(root.path())).len();
    for killed_after in 0..=count {
        let root = tempfile::tempdir().unwrap();
        let files = ServingFiles::in_directory(root.path());
        files::run_all(&steps_of(&files)[..killed_after]).unwrap();
        let pair = files.obtain("n1", at(NOW)).unwrap();
        let again = files.obtain("n1", at(NOW)).unwrap();
        assert_eq!(pair.chain(), again.chain(), "killed after {killed_after}");
    }
}
