//! How the node is reached: static pod sources, the HTTPS API, who may call it.

use super::row::row;
use crate::schema::{Field, Kind};

pub(super) const ROWS: &[Field] = &[
    row("apiVersion", Kind::String)
        .allowed("`kubelet.config.k8s.io/v1beta1`")
        .about(
            "The format of this file. Every file needs it, drop-ins too; no other version knows \
             the kubelet's settings.",
        ),
    row("kind", Kind::String)
        .allowed("`KubeletConfiguration`")
        .about(
            "Says that this file holds the kubelet's settings. Every file needs it, drop-ins too.",
        ),
    row("enableServer", Kind::Bool)
        .optional()
        .json("true")
        .flag("enable-server")
        .about(
            "Serves the node's HTTPS API. Without it there are no logs, exec, port-forward or \
             metrics from this node, so turn it off only where nobody needs them.",
        ),
    row("staticPodPath", Kind::String)
        .flag("pod-manifest-path")
        .about(
            "A directory of pod manifests (or one manifest) that this node runs by itself, \
             without being asked by the API server. A control plane made by kubeadm lives in such \
             a directory; leave it empty if there are no static pods.",
        ),
    row("podLogsDir", Kind::String)
        .json(r#""/var/log/pods""#)
        .allowed("an absolute path in ASCII, without a trailing slash and without `.` or `..`")
        .about(
            "Where containers' logs are written, one directory for each pod. Log collectors look \
             in the default place, so move it only together with them, and keep it on the disk of \
             the root directory, which is the one watched for eviction.",
        ),
    row("syncFrequency", Kind::Duration)
        .json(r#""1m0s""#)
        .flag("sync-frequency")
        .allowed("longer than zero")
        .about(
            "The longest that a pod goes unchecked while nothing happens to it. Changes are acted \
             on at once whatever this says, so a shorter time mostly costs CPU; it also bounds \
             how late a changed configMap shows up in a volume.",
        ),
    row("fileCheckFrequency", Kind::Duration)
        .json(r#""20s""#)
        .flag("file-check-frequency")
        .about(
            "How often the static pod directory is read again, in case the notice of a change got \
             lost.",
        ),
    row("httpCheckFrequency", Kind::Duration)
        .json(r#""20s""#)
        .flag("http-check-frequency")
        .about(
            "How often staticPodURL is asked for its pods. A change there takes up to this long \
             to arrive.",
        ),
    row("staticPodURL", Kind::String)
        .flag("manifest-url")
        .about(
            "A URL that serves pod manifests for this node to run without the API server. Whoever \
             controls its answer controls the node, so use https and a server that you trust.",
        ),
    row("staticPodURLHeader", Kind::StringsMap)
        .flag("manifest-url-header")
        .about(
            "Headers to send with each request to staticPodURL, each name with its list of \
             values; a token, for example. Values are masked when the configuration is logged.",
        ),
    row("address", Kind::String)
        .json(r#""0.0.0.0""#)
        .flag("address")
        .allowed("an IP address")
        .about(
            "The address that the node's HTTPS API listens on; 0.0.0.0 means every address of the \
             machine. If you choose one, the API server must be able to reach it.",
        ),
    row("port", Kind::Int32)
        .json("10250")
        .flag("port")
        .allowed("a port number from 1 to 65535")
        .about(
            "The port of the node's HTTPS API. The API server learns it from the node's status; \
             let the control plane and monitoring through the firewall, and nobody else.",
        ),
    row("readOnlyPort", Kind::Int32)
        .depends("0 with a --config file, 10255 without")
        .flag("read-only-port")
        .allowed("0 (closed) or a port number from 1 to 65535")
        .about(
            "A second port that shows pods and statistics over plain HTTP to whoever asks. Keep \
             it at 0 (closed) unless an old tool still reads from it.",
        ),
    row("tlsCertFile", Kind::String)
        .depends(
            "kubelet.crt in --cert-dir when both TLS files are empty and serverTLSBootstrap is \
             off",
        )
        .flag("tls-cert-file")
        .about(
            "The certificate, with its chain, that the HTTPS API shows. Leave both TLS files \
             empty for a self-signed pair, or set serverTLSBootstrap to have the cluster sign \
             one.",
        ),
    row("tlsPrivateKeyFile", Kind::String)
        .depends(
            "kubelet.key in --cert-dir when both TLS files are empty and serverTLSBootstrap is \
             off",
        )
        .flag("tls-private-key-file")
        .about("The private key of tlsCertFile. Set both or neither."),
    row("tlsCipherSuites", Kind::Strings)
        .flag("tls-cipher-suites")
        .allowed(
            "a list of cipher suite names, for example `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`",
        )
        .about(
            "The cipher suites that the HTTPS API may use up to TLS 1.2; TLS 1.3 brings its own \
             and ignores this. Leave it empty unless a policy prescribes a list. CBC suites are \
             taken with a warning and not offered.",
        ),
    row("tlsCurvePreferences", Kind::Int32s)
        .allowed("a list of distinct group numbers from 1 to 65535 that the TLS library knows")
        .about(
            "The key exchange groups that the HTTPS API accepts, by IANA number (29 is X25519); \
             their order does not matter. Leave it empty unless a policy prescribes a list.",
        ),
    row("tlsMinVersion", Kind::String)
        .flag("tls-min-version")
        .allowed("empty, `VersionTLS10`, `VersionTLS11`, `VersionTLS12` or `VersionTLS13`")
        .about(
            "The oldest TLS version that the HTTPS API accepts; empty means 1.2. Older ones than \
             that are taken with a warning and not offered.",
        ),
    row("rotateCertificates", Kind::Bool)
        .flag("rotate-certificates")
        .about(
            "Renews the node's client certificate before it runs out, by a signing request that \
             the cluster approves. Turn it on wherever nodes join with a token: without it a node \
             is locked out on the day its certificate expires.",
        ),
    row("serverTLSBootstrap", Kind::Bool)
        .flag("rotate-server-certificates")
        .gated("RotateKubeletServerCertificate")
        .allowed("false while the gate RotateKubeletServerCertificate is off")
        .about(
            "Has the cluster sign the certificate of the HTTPS API, and renew it, instead of \
             signing it here. Something has to approve those requests: until then logs and exec \
             from this node fail.",
        ),
    row("authentication", Kind::Object).about(
        "How callers of the node's HTTPS API prove who they are: by certificate, by token, or \
             not at all.",
    ),
    row("authentication.x509", Kind::Object).about("Callers known by a client certificate."),
    row("authentication.x509.clientCAFile", Kind::String)
        .flag("client-ca-file")
        .allowed("a readable file of PEM certificates")
        .about(
            "A PEM file with the authorities whose client certificates are believed: the common \
             name is the user, the organizations are the groups. The API server normally comes in \
             this way, so give it the cluster's CA.",
        ),
    row("authentication.webhook", Kind::Object)
        .about("Callers known by a bearer token, which the API server is asked about."),
    row("authentication.webhook.enabled", Kind::Bool)
        .optional()
        .depends("true with a --config file, false without")
        .flag("authentication-token-webhook")
        .allowed("false on a node without an API server")
        .about(
            "Lets callers in by bearer token, checked with the API server. It needs a kubeconfig, \
             so turn it off on a node without an API server.",
        ),
    row("authentication.webhook.cacheTTL", Kind::Duration)
        .json(r#""2m0s""#)
        .flag("authentication-token-webhook-cache-ttl")
        .about(
            "How long the answer about a token is remembered. Longer spares the API server; a \
             revoked token keeps working for that long.",
        ),
    row("authentication.anonymous", Kind::Object)
        .about("Callers who show neither a certificate nor a token."),
    row("authentication.anonymous.enabled", Kind::Bool)
        .optional()
        .depends("false with a --config file, true without")
        .flag("anonymous-auth")
        .about(
            "Takes callers without credentials as the user system:anonymous instead of turning \
             them away. Together with authorization.mode AlwaysAllow this opens the node to \
             everyone who reaches the port.",
        ),
    row("authorization", Kind::Object).about("What a caller of the node's HTTPS API may do."),
    row("authorization.mode", Kind::String)
        .depends("Webhook with a --config file, AlwaysAllow without")
        .flag("authorization-mode")
        .allowed("`AlwaysAllow` or `Webhook`")
        .about(
            "Webhook asks the API server whether the caller may do this; AlwaysAllow lets every \
             caller do everything, running commands in pods included. Use AlwaysAllow only on a \
             node without an API server.",
        ),
    row("authorization.webhook", Kind::Object)
        .about("How long the API server's decisions are remembered."),
    row("authorization.webhook.cacheAuthorizedTTL", Kind::Duration)
        .json(r#""5m0s""#)
        .flag("authorization-webhook-cache-authorized-ttl")
        .about(
            "How long a yes is remembered. A right that was taken away keeps working for that \
             long.",
        ),
    row("authorization.webhook.cacheUnauthorizedTTL", Kind::Duration)
        .json(r#""30s""#)
        .flag("authorization-webhook-cache-unauthorized-ttl")
        .about(
            "How long a no is remembered. A right that was just given is refused for that long.",
        ),
];
