//! Any bytes, cut at zero bytes, as drop-ins over each other.
#![no_main]

use std::path::Path;

use config::flags::CommandLine;
use config::load::resolve;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dir) = tempfile::tempdir() else { return };
    for (index, text) in bytes.split(|&byte| byte == 0).take(9).enumerate() {
        let head = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        // Every other one has the header that lets it through the door.
        let content = if index % 2 == 0 { [head, text].concat() } else { text.to_vec() };
        let _ = std::fs::write(dir.path().join(format!("{index}.conf")), content);
    }
    let words = [format!("--config-dir={}", dir.path().display())];
    if let Ok(line) = CommandLine::parse(&words) {
        let _ = resolve(&line, Path::new("/"));
    }
});
