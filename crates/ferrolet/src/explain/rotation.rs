//! How certificates are renewed.

use std::fs;

use identity::Purpose;
use identity::decide::state::State;
use jiff::Timestamp;

use super::live::{Live, certs_status};
use super::walk::{Step, Walk};

pub(super) fn walk(live: Option<&Live>) -> Walk {
    let name = live.map_or("NODE", |live| &live.name);
    Walk {
        title: "How a node renews its certificates (rotation)",
        steps: vec![
            moment(live),
            request(live, name),
            exchange(live),
            trouble(live),
            end(live),
            serving(live),
        ],
    }
}

fn moment(live: Option<&Live>) -> Step {
    let text = "With rotateCertificates the agent draws a moment between 70 and 90 % of the certificate's life, another one for each certificate, so that nodes made together do not ask together. At once, if the certificate's name does not fit the node.";
    let here = live.map(|live| {
        let mut lines = vec![format!(
            "rotateCertificates: {}",
            live.settings.bool("rotateCertificates")
        )];
        if let Some(details) = live.looked.client.details() {
            lines.push(format!("valid from {}", live.when(details.not_before.0)));
            lines.push(format!("valid until {}", live.when(details.not_after.0)));
            lines.push(format!(
                "to be renewed from {} to {}",
                live.when(details.renewal_from.0),
                live.when(details.renewal_until.0)
            ));
        }
        if let Some(State::Issued {
            rotate_at: Some(at),
            ..
        }) = live.looked.agent.state(Purpose::Client)
        {
            let at = Timestamp::try_from(*at).unwrap_or_default();
            lines.push(format!("the agent has drawn {}", live.when(at)));
        }
        lines
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look(certs_status(live))
}

fn request(live: Option<&Live>, name: &str) -> Step {
    let text = format!(
        "It makes a new key and a new request, this time as itself, system:node:{name}. kube-controller-manager approves it if the group system:nodes may create certificatesigningrequests/selfnodeclient."
    );
    let here = live.map(|live| live.requests_for(Purpose::Client));
    Step::new(text)
        .here(here.into_iter().flatten())
        .look("ferrolet csr list")
}

fn exchange(live: Option<&Live>) -> Step {
    let text = "The new pair is written to a file of its own, and the link kubelet-client-current.pem turned to it. The connections to the API server are drained and made anew with it: nothing is restarted, and no pod notices.";
    let here = live.map(|live| {
        let mut lines = live.certificate(&live.looked.client);
        let pairs = stored_pairs(live);
        if !pairs.is_empty() {
            lines.push(format!("files: {}", pairs.join(", ")));
        }
        lines
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look("ls -l /var/lib/kubelet/pki".replace(
            "/var/lib/kubelet/pki",
            &live.map_or("/var/lib/kubelet/pki".to_owned(), |live| {
                live.places.cert_dir.display().to_string()
            }),
        ))
}

/// The newest three, by their names.
fn stored_pairs(live: &Live) -> Vec<String> {
    let entries = fs::read_dir(&live.places.cert_dir).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with("kubelet-client-2"))
        .collect();
    names.sort();
    let from = names.len().saturating_sub(3);
    names.split_off(from)
}

fn trouble(live: Option<&Live>) -> Step {
    let text = "A request that is not answered within 15 minutes, denied or refused is followed by another one, after 2, 4, 8 and 16 s and then every 32 s, while the old certificate is still good. Alarm on the figure kubelet_certificate_manager_client_ttl_seconds.";
    let here = live.map(|live| match live.looked.agent.state(Purpose::Client) {
        Some(state) => state.advice(Purpose::Client).sentence,
        None => "the agent tells nothing of its requests here".to_owned(),
    });
    Step::new(text).here(here).look("ferrolet certs check")
}

fn end(live: Option<&Live>) -> Step {
    let text = "A certificate that has expired cannot ask for another. The agent then goes back to the bootstrap kubeconfig, in the running process, if one with a good token is there. If not, and the API server is well, it ends with exit code 1 after five minutes, for somebody to see.";
    let here = live.map(|live| {
        let bootstrap = &live.looked.kubeconfig.bootstrap;
        let state = if bootstrap.present {
            "is there"
        } else {
            "is not there"
        };
        format!("{} {state}", bootstrap.file.display())
    });
    Step::new(text).here(here).look("ferrolet token create")
}

fn serving(live: Option<&Live>) -> Step {
    let text = "A serving certificate from the cluster's signer (serverTLSBootstrap) is renewed in the same way, and also when the node's addresses change; each time somebody has to approve it. A self-signed one is not renewed.";
    let here = live.map(|live| live.certificate(&live.looked.serving));
    Step::new(text)
        .here(here.into_iter().flatten())
        .look("ferrolet csr approve --watch --kubelet-serving")
}
