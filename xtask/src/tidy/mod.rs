//! `cargo xtask tidy`: the rules of this repository, as a test. Each rule is a
//! pure function from what it reads to what it finds wrong.

mod documents;
mod figures;
mod imports;
mod rows;
mod sources;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};
use testkit::command;
use testkit::lab::workspace;

/// Takes the figures of the benchmarks over into the READMEs.
pub(crate) fn take_figures_over() -> Result<()> {
    let root = workspace();
    let names = ["README.md", "README.zh-CN.md"];
    let (english, chinese) = (read(&root, names[0])?, read(&root, names[1])?);
    let file = |file: &str| read(&root, file).ok();
    let (mended, mended_chinese) = figures::taken_over(&english, &chinese, &file);
    fs::write(root.join(names[0]), mended)?;
    fs::write(root.join(names[1]), mended_chinese)?;
    Ok(())
}

pub(crate) fn run() -> Result<()> {
    let root = workspace();
    let files = files(&root)?;
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cannot read the workspace")?;
    let architecture = read(&root, "ARCHITECTURE.md")?;

    let mut findings = imports::check(&metadata, &architecture)?;
    findings.extend(crate_heads(&metadata)?);
    for file in &files {
        match Path::new(file).extension().and_then(OsStr::to_str) {
            Some("rs") => findings.extend(sources::check(file, &read(&root, file)?)),
            Some("md") => {
                let exists = |path: &Path| root.join(path).exists();
                findings.extend(documents::dead_links(file, &read(&root, file)?, &exists));
            }
            _ => {}
        }
    }
    let readme = read(&root, "README.md")?;
    let chinese = read(&root, "README.zh-CN.md")?;
    findings.extend(documents::in_step(&readme, &chinese));
    findings.extend(figures::check(&readme, &|file| read(&root, file).ok()));
    findings.extend(documents::names_every_crate(&metadata, &architecture));
    findings.extend(rows(&root, &files, &architecture)?);

    if findings.is_empty() {
        println!("tidy: {} files, nothing found", files.len());
        return Ok(());
    }
    for finding in &findings {
        println!("tidy: {finding}");
    }
    bail!("{} findings", findings.len())
}

/// The rows of the fact sheets.
fn rows(root: &Path, files: &[String], architecture: &str) -> Result<Vec<String>> {
    let below = |place: &str| -> Result<String> {
        let inside = files.iter().filter(|file| file.starts_with(place));
        inside.map(|file| read(root, file)).collect()
    };
    let (_, missing) = architecture
        .split_once("\n## Not yet\n")
        .context("ARCHITECTURE.md does not say what is missing")?;
    let ground = rows::Ground {
        file: &|path| read(root, path).ok(),
        scenarios: below("crates/testkit/src/compare/scenarios/")?,
        wires: below("crates/testkit/src/wire/")?,
        architecture: rows::plain(architecture),
        missing: rows::plain(missing),
        not_effective: config::effect::not_effective()
            .map(|(name, why)| (name, why.to_string()))
            .collect(),
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.starts_with("docs/rows/")) {
        findings.extend(rows::check(file, &read(root, file)?, &ground));
    }
    Ok(findings)
}

/// What git tracks, and what it would if it were added.
fn files(root: &Path) -> Result<Vec<String>> {
    let listed = command::run(Command::new("git").current_dir(root).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(listed
        .lines()
        .filter(|file| root.join(file).is_file())
        .map(str::to_owned)
        .collect())
}

fn crate_heads(metadata: &Metadata) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest = fs::read_to_string(&package.manifest_path)?;
        findings.extend(sources::check_manifest(
            package.manifest_path.as_str(),
            &manifest,
        ));
        for target in &package.targets {
            let text = fs::read_to_string(&target.src_path)
                .with_context(|| format!("cannot read {}", target.src_path))?;
            findings.extend(sources::check_head(target.src_path.as_str(), &text));
        }
    }
    Ok(findings)
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}
