use std::fs;
use std::os::unix::fs::MetadataExt as _;

use jiff::SignedDuration;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::tests_support::{names, now};
use super::*;

fn text(pair: &Pair) -> String {
    let (_, certificate) = X509Certificate::from_der(pair.certificate_der()).unwrap();
    let extension = certificate.subject_alternative_name().unwrap();
    let names = extension.map(|names| format!("{:?}", names.value.general_names));
    format!(
        "{} by {} {}",
        certificate.subject(),
        certificate.issuer(),
        names.unwrap_or_default()
    )
}

#[test]
fn certificates_say_what_kubeadms_say() {
    let pki = Pki::open(None, &names(), now()).unwrap();
    assert!(text(&pki.ca).starts_with("CN=kubernetes by CN=kubernetes"));
    assert!(text(&pki.admin).starts_with("O=system:masters, CN=kubernetes-admin by CN=kubernetes"));
    assert!(text(&pki.kubelet_client).starts_with("CN=kube-apiserver-kubelet-client by"));
    let serving = text(&pki.serving);
    for name in [
        "CN=kube-apiserver",
        "\"box.example\"",
        "\"localhost\"",
        "\"kubernetes.default.svc.cluster.local\"",
        "[10, 96, 0, 1]",
        "[192, 0, 2, 7]",
        "[127, 0, 0, 1]",
    ] {
        assert!(serving.contains(name), "{name} in {serving}");
    }
}

#[test]
fn a_second_start_finds_everything_and_keys_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pki");
    let first = Pki::open(Some(&path), &names(), now()).unwrap();
    let second = Pki::open(Some(&path), &names(), now()).unwrap();
    for (one, other) in [
        (&first.ca, &second.ca),
        (&first.serving, &second.serving),
        (&first.admin, &second.admin),
        (&first.kubelet_client, &second.kubelet_client),
    ] {
        assert_eq!(one.certificate_der(), other.certificate_der());
        assert_eq!(one.key_pem(), other.key_pem());
    }
    assert_eq!(first.token_key.id(), second.token_key.id());
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode() & 0o777;
        let is_certificate = entry.path().extension().is_some_and(|end| end == "crt");
        assert_eq!(
            mode,
            if is_certificate { 0o644 } else { 0o600 },
            "{entry:?}"
        );
    }
}

#[test]
fn what_a_crash_left_is_completed_and_what_is_due_is_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let first = Pki::open(Some(path), &names(), now()).unwrap();
    let reopened =
        |names: &ServingNames, now: Timestamp| Pki::open(Some(path), names, now).unwrap();

    fs::remove_file(path.join("apiserver.crt")).unwrap();
    let again = reopened(&names(), now());
    assert_eq!(again.serving.key_pem(), first.serving.key_pem());
    assert_ne!(
        again.serving.certificate_der(),
        first.serving.certificate_der()
    );

    fs::write(path.join("admin.crt"), "half of a certif").unwrap();
    assert_eq!(text(&reopened(&names(), now()).admin), text(&first.admin));

    let mut more = names();
    more.addresses.push("192.0.2.8".parse().unwrap());
    assert!(text(&reopened(&more, now()).serving).contains("[192, 0, 2, 8]"));

    let kept = reopened(&more, now() + SignedDuration::from_hours(24 * 280));
    let renewed = reopened(&more, now() + SignedDuration::from_hours(24 * 300));
    assert_ne!(
        kept.serving.certificate_der(),
        renewed.serving.certificate_der()
    );
    assert_eq!(kept.ca.certificate_der(), renewed.ca.certificate_der());
}

#[test]
fn a_ca_that_is_not_whole_is_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    Pki::open(Some(path), &names(), now()).unwrap();
    let key = fs::read_to_string(path.join("ca.key")).unwrap();
    let open = |now: Timestamp| {
        Pki::open(Some(path), &names(), now)
            .unwrap_err()
            .to_string()
    };

    fs::remove_file(path.join("ca.key")).unwrap();
    assert!(open(now()).contains("restore ca.key"));
    let other = fs::read_to_string(path.join("admin.key")).unwrap();
    fs::write(path.join("ca.key"), other).unwrap();
    assert!(open(now()).contains("not the certificate of the key beside it"));
    fs::write(path.join("ca.key"), "nonsense").unwrap();
    assert!(open(now()).contains("cannot be used"));
    fs::write(path.join("ca.key"), key).unwrap();
    Pki::open(Some(path), &names(), now()).unwrap();
    assert!(open(now() + SignedDuration::from_hours(24 * 3651)).contains("has ended"));
}
