//! From a token to a node.

use identity::Purpose;

use super::live::{Live, certs_status};
use super::walk::{Step, Walk};
use crate::certs::kubeconfig::Verdict;

pub(super) fn walk(live: Option<&Live>) -> Walk {
    let name = live.map_or("NODE", |live| &live.name);
    Walk {
        title: "How a node gets its identity (TLS bootstrap)",
        steps: vec![
            credentials(live),
            request(live, name),
            approval(live),
            store(live),
            registration(live, name),
            serving(live),
        ],
    }
}

fn credentials(live: Option<&Live>) -> Step {
    let text = "The agent looks at --kubeconfig. If it is there and shows a client certificate that has not expired, all is done. If not, the agent takes --bootstrap-kubeconfig: the API server's address and CA, and a token. With the token it is the user system:bootstrap:ID of the group system:bootstrappers, who may do little more than ask for a certificate.";
    let here = live.map(|live| {
        let look = &live.looked.kubeconfig;
        let verdict = match look.verdict {
            Verdict::Valid => "shows a valid certificate",
            Verdict::Absent => "is not there",
            Verdict::Forbidden => "may not be read by this user",
            Verdict::NoCertificate => "shows no valid certificate",
            Verdict::Unusable => "cannot be used",
        };
        let bootstrap = match (look.bootstrap.present, look.bootstrap.needed) {
            (true, true) => "is there, and would be used",
            (true, false) => "is there, and not needed",
            (false, _) => "is not there",
        };
        [
            format!("{} {verdict}", look.file.display()),
            format!("{} {bootstrap}", look.bootstrap.file.display()),
        ]
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look(certs_status(live))
        .look("ferrolet token list")
}

fn request(live: Option<&Live>, name: &str) -> Step {
    let text = format!(
        "It makes an ECDSA key and a CertificateSigningRequest for the user system:node:{name} of the group system:nodes, to the signer kubernetes.io/kube-apiserver-client-kubelet. With rotateCertificates the request is named csr-XXXXX, with a new key at every attempt, and the agent goes on meanwhile; without, its name follows from the key (node-csr-…), so that a restart finds it again, and the agent waits for it up to an hour."
    );
    let here = live.map(|live| {
        let rotates = live.settings.bool("rotateCertificates");
        let mut lines = vec![format!("rotateCertificates: {rotates}")];
        lines.extend(live.requests_for(Purpose::Client));
        lines
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look("ferrolet csr list")
}

fn approval(live: Option<&Live>) -> Step {
    let waiting = live.and_then(|live| {
        let state = live.looked.agent.state(Purpose::Client)?;
        state.unapproved().map(str::to_owned)
    });
    let text = "kube-controller-manager approves it by itself if the user's group may create certificatesigningrequests/nodeclient, and signs it. Where no such role is bound, it waits for a person.";
    let here = live.map(|_| match &waiting {
        Some(csr) => format!("CSR {csr} waits for approval"),
        None => "nothing waits".to_owned(),
    });
    let csr = waiting.unwrap_or_else(|| "CSR".to_owned());
    Step::new(text)
        .here(here)
        .look(format!("ferrolet csr show {csr}"))
        .look(format!("kubectl certificate approve {csr}"))
}

fn store(live: Option<&Live>) -> Step {
    let directory = live.map_or("CERT_DIR".to_owned(), |live| {
        live.places.cert_dir.display().to_string()
    });
    let text = format!(
        "Certificate and key become one file, {directory}/kubelet-client-DATE.pem, readable by root only, and the link kubelet-client-current.pem is turned to it. The kubeconfig names the link, so that it never changes again. The token is of no more use."
    );
    let here = live.map(|live| live.certificate(&live.looked.client));
    Step::new(text)
        .here(here.into_iter().flatten())
        .look(certs_status(live))
}

fn registration(live: Option<&Live>, name: &str) -> Step {
    let text = "As system:node:NAME, which the Node authorizer keeps to its own objects, the agent creates its Node, its Lease and its CSINode. Once the runtime, the pod network and the CSINode are well, the Node is Ready.";
    let here = live.map(|live| {
        let Some(node) = &live.node else {
            return vec![format!("node {name} is not there, or may not be seen")];
        };
        let created = node.metadata.creation_timestamp.as_ref();
        let created = created.map(|time| format!("node {name} made {}", live.when(time.0)));
        let ready = live.ready().map(|ready| {
            let since = ready.last_transition_time.as_ref();
            let since = since.map_or(String::new(), |time| {
                format!(" since {}", live.when(time.0))
            });
            format!("Ready: {}{since}", ready.status)
        });
        created.into_iter().chain(ready).collect()
    });
    Step::new(text.replace("NAME", name))
        .here(here.into_iter().flatten())
        .look(format!("kubectl describe node {name}"))
        .look("ferrolet explain heartbeat")
}

fn serving(live: Option<&Live>) -> Step {
    let text = "For its own port (logs, exec) it needs a serving certificate. By default it signs one itself; with serverTLSBootstrap it asks for one by a second request, with its addresses, to the signer kubernetes.io/kubelet-serving. No controller approves these: until somebody does, logs and exec fail with a TLS error.";
    let here = live.map(|live| {
        let asks = live.settings.bool("serverTLSBootstrap");
        let mut lines = vec![format!("serverTLSBootstrap: {asks}")];
        if asks {
            lines.extend(live.requests_for(Purpose::Serving));
        }
        lines.extend(live.certificate(&live.looked.serving));
        lines
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look("ferrolet csr approve --watch --kubelet-serving")
}
