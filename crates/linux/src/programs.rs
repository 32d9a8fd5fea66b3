//! Programs of the machine, run for what they print.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use seams::host::{Executed, Heard, Program};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};

/// How much of its complaints is kept.
const COMPLAINT: usize = 2048;

/// How much of what is heard as it comes is handed on at once.
const BLOCK: usize = 64 * 1024;

/// Whether there is something that can be run.
pub(crate) fn is_program(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Err(cause) if crate::trees::absent(&cause) => Ok(false),
        metadata => {
            let metadata = metadata?;
            Ok(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        }
    }
}

/// Runs it to its end. It and its children are killed when the future is dropped.
pub(crate) async fn execute(path: &Path, program: Program) -> io::Result<Executed> {
    let mut child = Command::new(path)
        .args(&program.arguments)
        .envs(
            program
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let mut group = Group::of(&child);
    let executed = listen(&mut child, &program).await?;
    // Its number may soon be another's.
    group.0 = None;
    Ok(executed)
}

/// Starts it. What it prints and what it complains of come in the order in which it
/// writes them. It and its children are killed when the stream is dropped.
pub(crate) fn hear(path: &Path, program: &Program) -> io::Result<Heard> {
    let (output, input) = io::pipe()?;
    let child = Command::new(path)
        .args(&program.arguments)
        .envs(
            program
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = Group::of(&child);
    let output = pipe::Receiver::from_owned_fd(output.into())?;
    let heard = futures_util::stream::try_unfold((output, group, child), next_block);
    Ok(Box::pin(heard))
}

type Hearing = (pipe::Receiver, Group, Child);

async fn next_block(hearing: Hearing) -> io::Result<Option<(Vec<u8>, Hearing)>> {
    let (mut output, mut group, mut child) = hearing;
    let mut block = Vec::with_capacity(BLOCK);
    if output.read_buf(&mut block).await? > 0 {
        return Ok(Some((block, (output, group, child))));
    }
    child.wait().await?;
    // Its number may soon be another's.
    group.0 = None;
    Ok(None)
}

async fn listen(child: &mut Child, program: &Program) -> io::Result<Executed> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (output, complaint, ()) = tokio::try_join!(
        read(stdout, program.most_output),
        read(stderr, COMPLAINT),
        feed(stdin, &program.input),
    )?;
    let status = child.wait().await?;
    Ok(Executed {
        outcome: if status.success() {
            Ok(())
        } else {
            Err(status.to_string())
        },
        output: output.0,
        is_cut: output.1,
        complaint: String::from_utf8_lossy(&complaint.0).trim().to_owned(),
    })
}

/// One that does not want to read is not made to.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> io::Result<()> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(input).await {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(cause),
        _ => Ok(()),
    }
}

/// Reads to the end, so that the writer never waits for us; keeps the first bytes, and
/// tells if there were more.
async fn read(pipe: Option<impl AsyncRead + Unpin>, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let Some(pipe) = pipe else {
        return Ok((Vec::new(), false));
    };
    let mut kept = Vec::new();
    let mut start = pipe.take(most as u64);
    start.read_to_end(&mut kept).await?;
    let rest = tokio::io::copy(&mut start.into_inner(), &mut tokio::io::sink()).await?;
    Ok((kept, rest > 0))
}

/// The process group of a program that runs, killed when dropped. It is dropped before
/// the child is reaped, so that the number cannot mean another group.
struct Group(Option<Pid>);

impl Group {
    /// It leads a group of its own.
    fn of(child: &Child) -> Self {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        Self(number.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It may be gone already, which is as good.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use futures_util::StreamExt as _;

    use super::*;
    use crate::testing::tree;

    fn program(script: &str) -> Program {
        Program {
            path: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("TOLD".into(), "by us".into())],
            input: b"what it reads".to_vec(),
            most_output: 1000,
        }
    }

    async fn execute(script: &str) -> Executed {
        let program = program(script);
        let path = program.path.clone();
        super::execute(&path, program).await.unwrap()
    }

    #[tokio::test]
    async fn a_program_reads_its_input_and_its_output_is_heard() {
        let executed = execute("read line; echo \"$line, $TOLD\"; test -n \"$PATH\"").await;
        assert_eq!(executed.output, b"what it reads, by us\n");
        assert_eq!(executed.outcome, Ok(()));
        assert!(!executed.is_cut);
    }

    #[tokio::test]
    async fn one_that_fails_is_told_of_with_its_complaint() {
        let executed = execute("echo half; echo no luck >&2; exit 3").await;
        assert_eq!(executed.outcome, Err("exit status: 3".to_owned()));
        assert_eq!(executed.complaint, "no luck");
    }

    #[tokio::test]
    async fn of_a_flood_the_beginning_is_kept_and_the_rest_is_not_held() {
        let script = "exec <&-; head -c 104857600 /dev/zero; head -c 9999 /dev/zero >&2";
        let executed = execute(script).await;
        assert_eq!((executed.output.len(), executed.is_cut), (1000, true));
        assert_eq!(executed.complaint.len(), COMPLAINT);
        assert_eq!(executed.outcome, Ok(()));
    }

    #[tokio::test]
    async fn one_that_is_heard_as_it_speaks_is_heard_in_its_order_to_the_end() {
        let script = "echo one; echo two >&2; echo three; exit 3";
        let mut heard = hear(Path::new("/bin/sh"), &program(script)).unwrap();
        let mut all = Vec::new();
        while let Some(block) = heard.next().await {
            all.extend(block.unwrap());
        }
        assert_eq!(all, b"one\ntwo\nthree\n");
        assert!(hear(Path::new("/absent"), &program("")).is_err());
    }

    async fn a_moment() {
        let never = std::future::pending::<()>();
        let _ = tokio::time::timeout(Duration::from_millis(5), never).await;
    }

    #[tokio::test]
    async fn one_that_is_given_up_is_killed_with_its_children() {
        let root = tree(&[]);
        let told = root.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", told.display());
        let child = async {
            loop {
                let text = fs::read_to_string(&told).unwrap_or_default();
                if text.ends_with('\n') {
                    return text.trim().to_owned();
                }
                a_moment().await;
            }
        };
        let child = tokio::select! {
            _ = execute(&script) => panic!("it does not end by itself"),
            child = child => child,
        };
        let lives = || {
            let status = fs::read_to_string(format!("/proc/{child}/status"));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        let gone = async {
            while lives() {
                a_moment().await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_secs(20), gone).await;
        assert!(gone.is_ok(), "its child lives");
    }

    #[test]
    fn what_can_be_run_is_told_from_what_cannot() {
        let root = tree(&[("plain", "")]);
        assert!(is_program(Path::new("/bin/sh")).unwrap());
        for path in [root.path().join("plain"), root.path().join("absent")] {
            assert!(!is_program(&path).unwrap(), "{}", path.display());
        }
        assert!(!is_program(root.path()).unwrap());
    }
}
