//! Commands in containers. There is no shell here, only what probes and hooks ask
//! for most.

use std::time::Duration;

use seams::cri::ExecSyncResponse;

/// What a program ends with that was killed.
const KILLED: u8 = 128 + 9;

/// What a command in a running container comes to: `true`, `false`, `echo`, `exit N`
/// and `sleep N` (in a shell, too) do what they say. Any other command is taken for
/// a probe: it succeeds if the container is ready by its story. How long it takes,
/// and what it answers then.
pub(super) fn run(command: &[String], ready: bool) -> (Duration, ExecSyncResponse) {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let script: Vec<&str>;
    let words = match words.as_slice() {
        [shell, "-c", text, ..] if is_shell(shell) => {
            script = text.split_whitespace().collect();
            &script
        }
        words => words,
    };
    if let [name, seconds] = words
        && base(name) == "sleep"
        && let Ok(seconds) = seconds.parse::<u32>()
    {
        return (Duration::from_secs(seconds.into()), ended(0, ""));
    }
    let answer = match words {
        [name] if base(name) == "true" => ended(0, ""),
        [name] if base(name) == "false" => ended(1, ""),
        [name, rest @ ..] if base(name) == "echo" => ended(0, &format!("{}\n", rest.join(" "))),
        ["exit"] => ended(0, ""),
        ["exit", code] if code.parse::<u8>().is_ok() => ended(code.parse().unwrap_or_default(), ""),
        _ if ready => ended(0, "simulated: ready\n"),
        _ => ended(1, "simulated: not ready\n"),
    };
    (Duration::ZERO, answer)
}

/// What is answered of a command whose container has ended.
pub(super) fn killed() -> ExecSyncResponse {
    ended(KILLED, "")
}

fn is_shell(path: &str) -> bool {
    matches!(base(path), "sh" | "bash" | "ash" | "dash")
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn ended(exit_code: u8, stdout: &str) -> ExecSyncResponse {
    ExecSyncResponse {
        stdout: stdout.as_bytes().to_vec(),
        stderr: Vec::new(),
        exit_code: i32::from(exit_code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_as_it_says_or_as_the_container_is_ready() {
        for (command, ready, code, output) in [
            (&["true"][..], false, 0, ""),
            (&["/bin/false"], true, 1, ""),
            (&["echo", "a", "b"], false, 0, "a b\n"),
            (&["sh", "-c", "exit 7"], true, 7, ""),
            (&["/bin/sh", "-c", "echo  hello"], false, 0, "hello\n"),
            (&["exit", "300"], true, 0, "simulated: ready\n"),
            (&["cat", "/tmp/healthy"], true, 0, "simulated: ready\n"),
            (&["cat", "/tmp/healthy"], false, 1, "simulated: not ready\n"),
            (
                &["sh", "-c", "test -f x && true"],
                false,
                1,
                "simulated: not ready\n",
            ),
            (&[], true, 0, "simulated: ready\n"),
        ] {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let (lasts, answer) = run(&command, ready);
            assert_eq!(lasts, Duration::ZERO, "{command:?}");
            let printed = String::from_utf8(answer.stdout).unwrap();
            assert_eq!((answer.exit_code, &*printed), (code, output), "{command:?}");
        }
    }

    #[test]
    fn a_sleep_lasts() {
        for (command, seconds) in [
            (&["sleep", "3"][..], 3),
            (&["sh", "-c", "sleep 7"], 7),
            (&["sleep", "well"], 0),
        ] {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let (lasts, answer) = run(&command, true);
            assert_eq!(lasts, Duration::from_secs(seconds), "{command:?}");
            assert_eq!(answer.exit_code, 0, "{command:?}");
        }
    }
}
