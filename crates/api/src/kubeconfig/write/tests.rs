use std::fs;
use std::os::unix::fs::symlink;

use super::super::file::Kubeconfig;
use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn bootstrap(directory: &Path, cluster: &str) -> ClientConfig {
    fs::write(directory.join("ca.crt"), "").unwrap();
    let text = format!(
        "clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{token: hunter2}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    Kubeconfig::parse(text.as_bytes(), &directory.join("bootstrap"))
        .unwrap()
        .resolve(None)
        .unwrap()
}

fn rendered(cluster: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let bootstrap = bootstrap(directory.path(), cluster);
    let text = render(
        Path::new("/k"),
        &bootstrap,
        Path::new("/pki/kubelet-client-current.pem"),
    )
    .unwrap();
    text.replace(directory.path().to_str().unwrap(), "DIR")
}

/// The texts are those of client-go, to the byte.
#[test]
fn the_file_is_the_one_that_upstream_writes() {
    let document = |cluster: &str| {
        format!(
            "apiVersion: v1
clusters:
- cluster:
{cluster}  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: /pki/kubelet-client-current.pem
    client-key: /pki/kubelet-client-current.pem
"
        )
    };
    let cases = [
        (
            "server: 'https://192.0.2.10:6443'",
            "    server: https://192.0.2.10:6443\n",
        ),
        (
            "server: 'https://a', certificate-authority: ca.crt, tls-server-name: name, proxy-url: 'http://p'",
            "    certificate-authority: DIR/ca.crt\n    server: https://a\n",
        ),
        (
            "server: 'https://a', certificate-authority-data: LONG",
            "    certificate-authority-data: LONG\n    server: https://a\n",
        ),
        (
            "server: 'https://a', insecure-skip-tls-verify: true",
            "    insecure-skip-tls-verify: true\n    server: https://a\n",
        ),
        (
            "server: 'http://a', certificate-authority: ca.crt",
            "    server: http://a\n",
        ),
        ("server: a:1", "    server: a:1\n"),
    ];
    for (cluster, expected) in cases {
        let long = "Q0FDQUNB".repeat(100);
        let (cluster, expected) = (
            cluster.replace("LONG", &long),
            expected.replace("LONG", &long),
        );
        assert_eq!(rendered(&cluster), document(&expected), "{cluster}");
    }
}

#[test]
fn what_is_written_is_read_again_with_the_same_meaning() {
    let directory = tempfile::tempdir().unwrap();
    let bootstrap = bootstrap(
        directory.path(),
        "server: 'https://a/p', certificate-authority: ca.crt",
    );
    let (path, pair) = (
        directory.path().join("deep/er/kubelet.conf"),
        directory.path().join("pair.pem"),
    );
    fs::write(&pair, "").unwrap();
    write_bootstrapped(&path, &bootstrap, &pair).unwrap();
    let config = Kubeconfig::read(&path).unwrap().resolve(None).unwrap();
    assert_eq!(config.server, bootstrap.server);
    assert_eq!(config.tls, bootstrap.tls);
    assert!(!fs::read_to_string(&path).unwrap().contains("hunter2"));
    assert_eq!(mode(&path), 0o600);
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "nothing is left beside"
    );
}

#[test]
fn a_file_that_is_there_keeps_its_mode_and_a_link_stays_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real"), directory.path().join("link"));
    fs::write(&real, "old").unwrap();
    fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
    symlink(&real, &link).unwrap();
    replace(&link, b"new").unwrap();
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert_eq!(mode(&real), 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn what_a_crash_left_beside_is_cleared_away() {
    let directory = tempfile::tempdir().unwrap();
    let (path, beside) = (directory.path().join("k"), directory.path().join("k.new"));
    fs::write(&beside, "half").unwrap();
    fs::set_permissions(&beside, Permissions::from_mode(0o666)).unwrap();
    replace(&path, b"whole").unwrap();
    assert_eq!(
        (fs::read(&path).unwrap(), mode(&path)),
        (b"whole".to_vec(), 0o600)
    );
    assert!(!beside.exists());
}

#[test]
fn a_write_that_fails_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("k");
    fs::write(&path, "old").unwrap();
    fs::create_dir(directory.path().join("k.new")).unwrap();
    assert!(replace(&path, b"new").is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert!(replace(&path.join("below"), b"new").is_err());
    assert!(replace(Path::new("/"), b"new").is_err());
}
