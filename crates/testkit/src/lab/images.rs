//! The images of the lab, built here since no registry can be reached: as OCI
//! layouts, one to be imported into every node, one to be served by the lab's
//! registry.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::layout::{hex, short_hash};
use super::programs::fresh_dir;
use crate::command;

const BUSYBOX: &str = "/bin/busybox";
/// What containerd is told to run sandboxes with.
pub const PAUSE: &str = "registry.k8s.io/pause:3.10";
/// Busybox as pods name it; the number is Debian's.
pub const BUSYBOX_IMAGE: &str = "busybox:1.35";

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Where the built images lie.
#[derive(Clone, Debug)]
pub(super) struct Images {
    /// One archive for `ctr images import`.
    pub(super) archive: PathBuf,
    /// The layout that the registry serves.
    pub(super) registry: PathBuf,
}

pub(super) fn build(cache: &Path, programs: &Path) -> Result<Images> {
    let pause = fs::read(programs.join("pause"))?;
    let busybox = fs::read(BUSYBOX).with_context(|| format!("cannot read {BUSYBOX}"))?;
    if contains(&busybox, b"/ld-linux") {
        bail!("{BUSYBOX} is not static: install Debian's busybox-static in place of busybox");
    }
    // The recipe is this file: a change of it makes other images.
    let recipe = include_bytes!("images.rs");
    let key = short_hash([&pause, &busybox, &recipe[..]], 16);
    let finished = cache.join(format!("images/{key}"));
    let images = Images {
        archive: finished.join("node.tar"),
        registry: finished.join("registry"),
    };
    if finished.exists() {
        return Ok(images);
    }
    let unfinished = fresh_dir(&finished.with_extension("new"))?;

    let applets = command::run(Command::new(BUSYBOX).arg("--list"))?;
    let busybox_layer = busybox_root(&busybox, &applets, None)?;
    let pause_image = Image {
        layer: pause_root(&pause)?,
        config: json!({ "Entrypoint": ["/pause"], "User": "65535:65535", "WorkingDir": "/" }),
    };
    let busybox_image = Image {
        layer: busybox_layer,
        config: json!({ "Cmd": ["sh"], "Env": ["PATH=/bin"], "WorkingDir": "/" }),
    };
    // Like busybox, and on no node: only a real pull brings it there.
    let pulled_image = Image {
        layer: busybox_root(&busybox, &applets, Some("only from the registry\n"))?,
        config: busybox_image.config.clone(),
    };

    let node = unfinished.join("node");
    let mut layout = OciLayout::new(&node)?;
    for name in [PAUSE, "registry.k8s.io/pause:3.10.2"] {
        layout.add(name, &pause_image)?;
    }
    for name in [
        "docker.io/library/busybox:1.35",
        "docker.io/library/busybox:latest",
    ] {
        layout.add(name, &busybox_image)?;
    }
    layout.finish()?;
    let mut archive = tar::Builder::new(fs::File::create(unfinished.join("node.tar"))?);
    archive.append_dir_all(".", &node)?;
    archive.finish()?;
    fs::remove_dir_all(&node)?;

    let mut layout = OciLayout::new(&unfinished.join("registry"))?;
    layout.add("pulled:1", &pulled_image)?;
    layout.finish()?;

    fs::rename(&unfinished, &finished)?;
    Ok(images)
}

struct Image {
    layer: Vec<u8>,
    config: Value,
}

struct OciLayout {
    dir: PathBuf,
    manifests: Vec<Value>,
}

impl OciLayout {
    fn new(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir.join("blobs/sha256"))?;
        Ok(Self {
            dir: dir.to_path_buf(),
            manifests: Vec::new(),
        })
    }

    fn add(&mut self, name: &str, image: &Image) -> Result<()> {
        let layer = self.blob(LAYER, &image.layer)?;
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": image.config,
            // The layer is not compressed: its digest is that of its content.
            "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
            "history": [{ "created_by": "ferrolet lab" }],
        });
        let config = self.blob(CONFIG, &serde_json::to_vec(&config)?)?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        });
        let mut manifest = self.blob(MANIFEST, &serde_json::to_vec(&manifest)?)?;
        manifest["annotations"] = json!({ "io.containerd.image.name": name });
        manifest["platform"] = json!({ "architecture": architecture(), "os": "linux" });
        self.manifests.push(manifest);
        Ok(())
    }

    /// Stores a blob and answers its descriptor.
    fn blob(&self, media_type: &str, content: &[u8]) -> Result<Value> {
        let digest = hex(&Sha256::digest(content));
        let mut file = fs::File::create(self.dir.join("blobs/sha256").join(&digest))?;
        file.write_all(content)?;
        Ok(json!({
            "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len(),
        }))
    }

    fn finish(self) -> Result<()> {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests });
        fs::write(self.dir.join("index.json"), serde_json::to_vec(&index)?)?;
        fs::write(
            self.dir.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        Ok(())
    }
}

fn pause_root(pause: &[u8]) -> Result<Vec<u8>> {
    let mut root = Root::default();
    root.file("pause", 0o755, pause)?;
    root.finish()
}

fn busybox_root(busybox: &[u8], applets: &str, mark: Option<&str>) -> Result<Vec<u8>> {
    let mut root = Root::default();
    for (dir, mode) in [
        ("bin", 0o755),
        ("etc", 0o755),
        ("home", 0o755),
        ("root", 0o700),
        ("tmp", 0o1777),
        ("var", 0o755),
        ("var/log", 0o755),
        ("var/www", 0o755),
    ] {
        root.dir(dir, mode)?;
    }
    root.file("bin/busybox", 0o755, busybox)?;
    for applet in applets.lines().filter(|&name| name != "busybox") {
        root.link(&format!("bin/{applet}"), "busybox")?;
    }
    let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n";
    root.file("etc/passwd", 0o644, users.as_bytes())?;
    let groups = "root:x:0:\nnobody:x:65534:\n";
    root.file("etc/group", 0o644, groups.as_bytes())?;
    if let Some(mark) = mark {
        root.file("etc/mark", 0o644, mark.as_bytes())?;
    }
    root.finish()
}

/// A file tree as a tar archive that depends on nothing but its content.
struct Root {
    archive: tar::Builder<Vec<u8>>,
}

impl Default for Root {
    fn default() -> Self {
        Self {
            archive: tar::Builder::new(Vec::new()),
        }
    }
}

impl Root {
    fn dir(&mut self, path: &str, mode: u32) -> Result<()> {
        let mut header = header(tar::EntryType::Directory, mode, 0);
        Ok(self.archive.append_data(&mut header, path, &[][..])?)
    }

    fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        let mut header = header(tar::EntryType::Regular, mode, content.len() as u64);
        Ok(self.archive.append_data(&mut header, path, content)?)
    }

    fn link(&mut self, path: &str, target: &str) -> Result<()> {
        let mut header = header(tar::EntryType::Symlink, 0o777, 0);
        Ok(self.archive.append_link(&mut header, path, target)?)
    }

    fn finish(self) -> Result<Vec<u8>> {
        Ok(self.archive.into_inner()?)
    }
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// The machine's, in the words of image configurations.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_names_its_images_and_holds_their_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let mut layout = OciLayout::new(dir.path()).unwrap();
        let image = Image {
            layer: pause_root(b"program").unwrap(),
            config: json!({ "Entrypoint": ["/pause"] }),
        };
        layout.add("some/name:1", &image).unwrap();
        layout.finish().unwrap();

        let index = fs::read(dir.path().join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(
            entry["annotations"]["io.containerd.image.name"],
            "some/name:1"
        );
        let digest = entry["digest"]
            .as_str()
            .unwrap()
            .strip_prefix("sha256:")
            .unwrap()
            .to_owned();
        let manifest = fs::read(dir.path().join("blobs/sha256").join(&digest)).unwrap();
        assert_eq!(hex(&Sha256::digest(&manifest)), digest);
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["layers"][0]["size"], image.layer.len());
    }

    #[test]
    fn a_root_is_the_same_each_time() {
        let root = || busybox_root(b"busybox", "sh\nls\nbusybox\n", None).unwrap();
        assert_eq!(root(), root());
        let bytes = root();
        let mut archive = tar::Archive::new(&bytes[..]);
        let paths: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert!(paths.contains(&"bin/sh".to_owned()), "{paths:?}");
        assert_eq!(
            paths.iter().filter(|path| *path == "bin/busybox").count(),
            1
        );
    }
}
