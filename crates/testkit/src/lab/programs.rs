//! The upstream programs of the lab: built once from the pins under
//! `lab/upstream`, kept in the user's cache under a name that follows from the
//! pins, and gathered in one directory that machines see.

use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::layout::{Layout, short_hash, workspace};
use super::{debian, pause};
use crate::command;

type GoVersion = (u32, u32, u32);

/// One upstream project with a `go.mod` of its own.
struct Project {
    name: &'static str,
    /// The module whose version is the project's.
    module: &'static str,
    /// Programs of every lab, and the packages that they are built from.
    programs: &'static [(&'static str, &'static str)],
    /// The same of programs that are built when one is asked for.
    on_request: &'static [(&'static str, &'static str)],
    /// Variables to be set to the version, at link time.
    stamps: fn(&Version) -> Vec<String>,
    c: C,
}

/// How much C is in a project.
#[derive(Clone, Copy)]
enum C {
    None,
    /// Parts of it, in need of the machine's libraries; and the tags to build with.
    Parts(&'static str),
}

const PROJECTS: &[Project] = &[
    Project {
        name: "etcd",
        module: "go.etcd.io/etcd/server/v3",
        programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
        on_request: &[],
        stamps: |_| Vec::new(),
        c: C::None,
    },
    Project {
        name: "containerd",
        module: "github.com/containerd/containerd/v2",
        programs: &[
            (
                "containerd",
                "github.com/containerd/containerd/v2/cmd/containerd",
            ),
            (
                "containerd-shim-runc-v2",
                "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            ),
            ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
        ],
        on_request: &[],
        stamps: |version| {
            vec![format!(
                "github.com/containerd/containerd/v2/version.Version={}",
                version.number
            )]
        },
        c: C::None,
    },
    Project {
        name: "kubernetes",
        module: "k8s.io/kubernetes",
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            (
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
            ),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kubeadm", "k8s.io/kubernetes/cmd/kubeadm"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        ],
        on_request: &[("kubemark", "k8s.io/kubernetes/cmd/kubemark")],
        stamps: kubernetes_stamps,
        c: C::None,
    },
    Project {
        name: "cri-tools",
        module: "sigs.k8s.io/cri-tools",
        programs: &[("crictl", "sigs.k8s.io/cri-tools/cmd/crictl")],
        on_request: &[],
        stamps: |version| {
            vec![format!(
                "sigs.k8s.io/cri-tools/pkg/version.Version={}",
                version.number
            )]
        },
        c: C::None,
    },
    Project {
        name: "metrics-server",
        module: "sigs.k8s.io/metrics-server",
        programs: &[(
            "metrics-server",
            "sigs.k8s.io/metrics-server/cmd/metrics-server",
        )],
        on_request: &[],
        stamps: kubernetes_stamps,
        c: C::None,
    },
    // Debian's runc is too old for pods with users of their own.
    Project {
        name: "runc",
        module: "github.com/opencontainers/runc",
        programs: &[("upstream-runc", "github.com/opencontainers/runc")],
        on_request: &[],
        // It knows its version.
        stamps: |_| Vec::new(),
        c: C::Parts("seccomp"),
    },
];

/// An unstamped program calls itself v0.0.0-master, and version checks among
/// the components go wrong.
fn kubernetes_stamps(version: &Version) -> Vec<String> {
    let mut parts = version.number.split('.');
    let major = parts.next().unwrap_or_default();
    let minor = parts.next().unwrap_or_default();
    [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ]
    .iter()
    .flat_map(|package| {
        [
            format!("{package}.gitVersion={}", version.tag),
            format!("{package}.gitMajor={major}"),
            format!("{package}.gitMinor={minor}"),
            format!("{package}.gitTreeState=clean"),
            format!("{package}.buildDate=1970-01-01T00:00:00Z"),
        ]
    })
    .collect()
}

struct Version {
    /// As the module's: `v1.2.3`.
    tag: String,
    /// Without the letter: `1.2.3`.
    number: String,
}

/// Builds what is not in the cache yet and answers the directory with all
/// programs. The caller holds the cache's lock.
pub(super) fn build(layout: &Layout) -> Result<PathBuf> {
    let mut go_is_there = false;
    let mut parts = Vec::new();
    for project in PROJECTS {
        let pinned = Pinned::read(layout, project)?;
        if !pinned.finished.exists() {
            if !go_is_there {
                require_go()?;
                go_is_there = true;
            }
            pinned.build(project)?;
        }
        parts.push((Path::new(""), pinned.finished));
    }
    parts.push((Path::new(""), pause::build(&layout.cache)?));
    parts.push((
        Path::new("containerd-1.6"),
        debian::containerd(&layout.cache)?,
    ));

    let names = parts
        .iter()
        .map(|(_, dir)| dir.as_os_str().as_encoded_bytes());
    let together = layout.cache.join("bin").join(short_hash(names, 16));
    if together.exists() {
        return Ok(together);
    }
    let unfinished = fresh_dir(&together.with_extension("new"))?;
    for (place, dir) in &parts {
        let target = unfinished.join(place);
        fs::create_dir_all(&target)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // The same file under a second name: costs no room.
            fs::hard_link(entry.path(), target.join(entry.file_name()))?;
        }
    }
    fs::rename(&unfinished, &together)?;
    Ok(together)
}

/// Where the program of that name is, of those that no lab needs to stand:
/// built now, if it never was. The caller holds the cache's lock.
pub(super) fn on_request(layout: &Layout, name: &str) -> Result<PathBuf> {
    let offered = PROJECTS.iter().find_map(|project| {
        let mut programs = project.on_request.iter();
        let (program, package) = programs.find(|(program, _)| *program == name)?;
        Some((project, program, package))
    });
    let (project, program, package) =
        offered.with_context(|| format!("{name} is no program that is built on request"))?;
    let pinned = Pinned::read(layout, project)?;
    let finished = pinned.finished.join(program);
    if !finished.exists() {
        require_go()?;
        pinned.build_one(program, package)?;
    }
    Ok(finished)
}

/// Where one program of every lab is, for who needs no lab: built alone now, if neither it nor
/// the lab's programs ever were. The caller holds the cache's lock.
pub(super) fn alone(layout: &Layout, name: &str) -> Result<PathBuf> {
    let offered = PROJECTS.iter().find_map(|project| {
        let mut programs = project.programs.iter();
        let (program, package) = programs.find(|(program, _)| *program == name)?;
        Some((project, program, package))
    });
    let (project, program, package) =
        offered.with_context(|| format!("{name} is no program of the lab"))?;
    let mut pinned = Pinned::read(layout, project)?;
    let with_others = pinned.finished.join(program);
    if with_others.exists() {
        return Ok(with_others);
    }
    pinned.finished.as_mut_os_string().push(format!("-{name}"));
    let finished = pinned.finished.join(program);
    if !finished.exists() {
        require_go()?;
        fs::create_dir_all(&pinned.finished)?;
        pinned.build_one(program, package)?;
    }
    Ok(finished)
}

fn pins_of(project: &Project) -> PathBuf {
    workspace().join("lab/upstream").join(project.name)
}

/// A project at its pin, built or to be built.
struct Pinned {
    pins: PathBuf,
    version: Version,
    stamps: Vec<String>,
    c: C,
    finished: PathBuf,
}

impl Pinned {
    fn read(layout: &Layout, project: &Project) -> Result<Self> {
        let pins = pins_of(project);
        let go_mod = read(&pins.join("go.mod"))?;
        let go_sum = read(&pins.join("go.sum"))?;
        let version = pinned_version(&go_mod, project.module).with_context(|| {
            format!(
                "{} does not pin {}",
                pins.join("go.mod").display(),
                project.module
            )
        })?;
        let stamps = (project.stamps)(&version);
        let mut how = stamps.join(" ");
        if let C::Parts(tags) = project.c {
            how.push_str(tags);
        }
        let key = short_hash([go_mod, go_sum, how], 16);
        let name = format!("programs/{}-{}-{key}", project.name, version.number);
        Ok(Self {
            pins,
            version,
            stamps,
            c: project.c,
            finished: layout.cache.join(name),
        })
    }

    fn build(&self, project: &Project) -> Result<()> {
        let start = Instant::now();
        println!("lab: building {} {} …", project.name, self.version.tag);
        let unfinished = fresh_dir(&self.finished.with_extension("new"))?;
        for (program, package) in project.programs {
            self.go_build(program, package, &unfinished)?;
        }
        fs::rename(&unfinished, &self.finished)?;
        let seconds = start.elapsed().as_secs();
        println!(
            "lab: built {} {} in {seconds} s",
            project.name, self.version.tag
        );
        Ok(())
    }

    /// Builds one program more, and puts it beside the finished ones.
    fn build_one(&self, program: &str, package: &str) -> Result<()> {
        println!("lab: building {program} {} …", self.version.tag);
        let unfinished = fresh_dir(&self.finished.with_extension("new"))?;
        self.go_build(program, package, &unfinished)?;
        fs::rename(unfinished.join(program), self.finished.join(program))?;
        fs::remove_dir(&unfinished)?;
        Ok(())
    }

    fn go_build(&self, program: &str, package: &str, into: &Path) -> Result<()> {
        let link = self.stamps.iter().fold("-s -w".to_owned(), |link, stamp| {
            format!("{link} -X {stamp}")
        });
        let mut go = Command::new("go");
        go.current_dir(&self.pins)
            .args(["build", "-v", "-trimpath", "-mod=readonly"])
            .args(["-ldflags", &link, "-o"])
            .arg(into.join(program))
            .env("GOWORK", "off")
            .env("GOTOOLCHAIN", "local");
        match self.c {
            C::None => go.env("CGO_ENABLED", "0"),
            C::Parts(tags) => go.env("CGO_ENABLED", "1").args(["-tags", tags]),
        };
        go.arg(package);
        build_with_progress(&mut go, program)
    }
}

/// `go build -v` names each package that it compiles: shows how far it is.
fn build_with_progress(go: &mut Command, program: &str) -> Result<()> {
    const BETWEEN_LINES: Duration = Duration::from_secs(15);
    let start = Instant::now();
    let terminal = std::io::stdout().is_terminal();
    let mut child = go
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run go")?;
    let mut said = Vec::new();
    let mut last_shown = start;
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines() {
            said.push(line?);
            let count = said.len();
            let seconds = start.elapsed().as_secs();
            if terminal {
                print!("\r\x1b[Klab:   {program}: {count} packages, {seconds} s");
                std::io::stdout().flush()?;
            } else if last_shown.elapsed() > BETWEEN_LINES {
                println!("lab:   {program}: {count} packages, {seconds} s");
                last_shown = Instant::now();
            }
        }
    }
    if terminal {
        print!("\r\x1b[K");
    }
    let status = child.wait()?;
    if !status.success() {
        // Package names are noise now; the compiler's words are at the end.
        let tail = said.split_off(said.len().saturating_sub(30)).join("\n");
        bail!("{} ({status})\n{tail}", command::line(go));
    }
    Ok(())
}

/// Fails unless there is a Go that builds every pin: asked before the first
/// build, not after the third.
fn require_go() -> Result<()> {
    let mut oldest = (0, 0, 0);
    for project in PROJECTS {
        let go_mod = read(&pins_of(project).join("go.mod"))?;
        oldest = oldest.max(wanted_go(&go_mod).unwrap_or_default());
    }
    let (major, minor, patch) = oldest;
    let needed = format!(
        "the lab builds Kubernetes with Go {major}.{minor}.{patch} or newer: install it from \
         go.dev/dl and put its bin directory on PATH"
    );
    let mut go = Command::new("go");
    go.args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local");
    let said = command::run(&mut go).with_context(|| needed.clone())?;
    let said = said.trim();
    if go_version(said).is_none_or(|found| found < oldest) {
        bail!("go is {said}, which is too old: {needed}");
    }
    Ok(())
}

/// The oldest Go that a `go.mod` allows.
fn wanted_go(go_mod: &str) -> Option<GoVersion> {
    let line = go_mod.lines().find_map(|line| line.strip_prefix("go "))?;
    go_version(&format!("go{}", line.trim()))
}

/// `go1.26.8` is (1, 26, 8); `go1.27rc1` is (1, 27, 0).
fn go_version(said: &str) -> Option<GoVersion> {
    let mut parts = said.strip_prefix("go")?.split(['.', 'r', 'b', '-', ' ']);
    let mut next = || parts.next()?.parse().ok();
    Some((next()?, next()?, next().unwrap_or(0)))
}

fn pinned_version(go_mod: &str, module: &str) -> Option<Version> {
    go_mod.lines().find_map(|line| {
        let line = line.trim().trim_start_matches("require ");
        let mut words = line.split_whitespace();
        if words.next() != Some(module) {
            return None;
        }
        let tag = words.next()?;
        let number = tag.strip_prefix('v')?;
        Some(Version {
            tag: tag.to_owned(),
            number: number.to_owned(),
        })
    })
}

/// An empty directory, whatever an interrupted run left there.
pub(super) fn fresh_dir(path: &Path) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(path);
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(path.to_path_buf())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions_are_read_and_compared() {
        for (said, expected) in [
            ("go1.26.8", Some((1, 26, 8))),
            ("go1.27rc1", Some((1, 27, 0))),
            ("go1.9", Some((1, 9, 0))),
            ("go2.0", Some((2, 0, 0))),
            ("devel", None),
        ] {
            assert_eq!(go_version(said), expected, "{said}");
        }
        assert_eq!(wanted_go("module x\n\ngo 1.26.4\n"), Some((1, 26, 4)));
        assert!(go_version("go1.9").unwrap() < go_version("go1.26.4").unwrap());
    }

    #[test]
    fn the_release_that_the_lab_names_is_the_one_that_is_pinned() {
        let kubernetes = PROJECTS
            .iter()
            .find(|project| project.name == "kubernetes")
            .unwrap();
        let go_mod = read(&pins_of(kubernetes).join("go.mod")).unwrap();
        let pinned = pinned_version(&go_mod, kubernetes.module).unwrap();
        assert_eq!(pinned.tag, crate::lab::KUBERNETES);
    }

    #[test]
    fn every_project_pins_its_module_and_builds_from_it() {
        for project in PROJECTS {
            let file = workspace()
                .join("lab/upstream")
                .join(project.name)
                .join("go.mod");
            let go_mod = read(&file).unwrap();
            let version = pinned_version(&go_mod, project.module);
            assert!(
                version.is_some(),
                "{} in {}",
                project.module,
                file.display()
            );
            for (program, package) in project.programs.iter().chain(project.on_request) {
                assert!(package.starts_with(project.module), "{program}");
                assert!(
                    go_mod.contains(package),
                    "{program} is no tool of {}",
                    file.display()
                );
            }
        }
    }

    /// A cache in which nothing is, and whose programs are looked for in it.
    fn empty(cache: &Path) -> (Layout, &'static Project) {
        let layout = Layout {
            id: crate::lab::InstanceId::new("test").unwrap(),
            dir: cache.join("lab"),
            cache: cache.to_path_buf(),
        };
        let mut projects = PROJECTS.iter();
        let kubernetes = projects.find(|project| project.name == "kubernetes");
        (layout, kubernetes.unwrap())
    }

    #[test]
    fn what_was_built_on_request_is_found_again() {
        let cache = tempfile::tempdir().unwrap();
        let (layout, kubernetes) = empty(cache.path());
        let pinned = Pinned::read(&layout, kubernetes).unwrap();
        fs::create_dir_all(&pinned.finished).unwrap();
        fs::write(pinned.finished.join("kubemark"), "").unwrap();
        let found = on_request(&layout, "kubemark").unwrap();
        assert_eq!(found, pinned.finished.join("kubemark"));
        // A part of every lab is never asked for.
        assert!(on_request(&layout, "kubelet").is_err());
    }

    #[test]
    fn one_program_is_found_among_all_or_alone() {
        let cache = tempfile::tempdir().unwrap();
        let (layout, kubernetes) = empty(cache.path());
        let whole = Pinned::read(&layout, kubernetes).unwrap().finished;
        let own = PathBuf::from(format!("{}-kubectl", whole.display()));
        for place in [own, whole] {
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("kubectl"), "").unwrap();
            assert_eq!(alone(&layout, "kubectl").unwrap(), place.join("kubectl"));
        }
        assert!(alone(&layout, "helm").is_err());
    }

    #[test]
    fn stamps_follow_the_pin() {
        let version =
            pinned_version("require k8s.io/kubernetes v1.36.4\n", "k8s.io/kubernetes").unwrap();
        let stamps = kubernetes_stamps(&version);
        for wanted in ["gitVersion=v1.36.4", "gitMajor=1", "gitMinor=36"] {
            assert!(
                stamps.iter().any(|stamp| stamp.ends_with(wanted)),
                "{wanted}"
            );
        }
    }
}
