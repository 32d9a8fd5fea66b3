//! The accounts of the machine, and the ids that they may hand on.

use std::io::{self, ErrorKind};
use std::process::Command;

use seams::host::{HostError, SubordinateIds};

use crate::files::Files;

const ACCOUNTS: &str = "/etc/passwd";

/// Knows the ids that accounts may hand on, wherever the machine keeps them.
pub(crate) const TOOL: &str = "getsubids";

/// `None` without the account, or without the tool. With both an answer is due: no
/// answer may mean that whoever keeps the ids is away.
pub(crate) fn subordinate_ids(
    files: &Files,
    tool: &str,
    account: &str,
) -> Result<Option<SubordinateIds>, HostError> {
    let accounts = files.optional_text(ACCOUNTS)?.unwrap_or_default();
    if !has_account(&accounts, account) {
        return Ok(None);
    }
    let users = match answer(tool, &[account]) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        users => users.map_err(|cause| failed("uids", account, cause))?,
    };
    let groups = answer(tool, &["-g", account]);
    let groups = groups.map_err(|cause| failed("gids", account, cause))?;
    Ok(Some(SubordinateIds { users, groups }))
}

fn has_account(accounts: &str, account: &str) -> bool {
    let mut names = accounts.lines().filter_map(|line| line.split_once(':'));
    names.any(|(name, _)| name == account)
}

fn answer(tool: &str, words: &[&str]) -> io::Result<String> {
    let output = Command::new(tool).args(words).output()?;
    if !output.status.success() {
        return Err(io::Error::other(output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn failed(kind: &str, account: &str, cause: io::Error) -> HostError {
    let what = format!("error retrieving additional {kind} for user {account:?}");
    HostError::new(what, cause)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::testing::{put, tree};

    const ACCOUNT: &str = "root:x:0:0::/root:/bin/sh\nkubelet:x:999:999::/:/bin/false\n";

    /// What the machine tells of `kubelet`, if its tool is this script.
    fn told(passwd: &str, script: Option<&str>) -> Result<Option<SubordinateIds>, String> {
        let root = tree(&[("etc/passwd", passwd)]);
        let tool = root.path().join("getsubids");
        if let Some(script) = script {
            put(root.path(), "getsubids", &format!("#!/bin/sh\n{script}\n"));
            fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let files = Files::new(root.path().to_owned());
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        // A script that was just written may still be open in a child of another test.
        let asked = (0..200).find_map(|_| {
            let asked = subordinate_ids(&files, &text(&tool), "kubelet");
            let busy = |error: &HostError| error.cause.kind() == ErrorKind::ExecutableFileBusy;
            (!asked.as_ref().is_err_and(busy)).then_some(asked)
        });
        asked.unwrap().map_err(|error| error.to_string())
    }

    #[test]
    fn an_account_and_the_tool_are_needed_to_know_ids() {
        let script = "echo \"0: kubelet 65536 $#\"";
        let known = SubordinateIds {
            users: "0: kubelet 65536 1\n".to_owned(),
            groups: "0: kubelet 65536 2\n".to_owned(),
        };
        for (passwd, script, wanted) in [
            (ACCOUNT, Some(script), Some(known)),
            (ACCOUNT, None, None),
            ("kubelets:x:1:1::/:/\n", Some(script), None),
            ("", Some(script), None),
        ] {
            assert_eq!(told(passwd, script), Ok(wanted), "{passwd:?}");
        }
    }

    #[test]
    fn a_tool_that_fails_is_an_error_and_not_an_empty_answer() {
        let error = told(ACCOUNT, Some("exit 3")).unwrap_err();
        assert!(error.starts_with("error retrieving additional uids for user \"kubelet\""));
        let groups = "test \"$1\" != -g || exit 4; echo 0: kubelet 65536 65536";
        let error = told(ACCOUNT, Some(groups)).unwrap_err();
        assert!(
            error.starts_with("error retrieving additional gids"),
            "{error}"
        );
    }
}
