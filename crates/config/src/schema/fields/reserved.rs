//! What is kept from pods, and how the program logs.

use super::row::row;
use crate::schema::{Field, Kind};

pub(super) const ROWS: &[Field] = &[
    row("systemReserved", Kind::StringMap)
        .flag("system-reserved")
        .allowed(
            "a map of `cpu`, `memory`, `ephemeral-storage` or `pid` to a quantity of zero or more",
        )
        .about(
            "What is kept from pods for the operating system. Measure what the machine uses \
             without pods and give it that, with some room; the scheduler then places less here.",
        ),
    row("kubeReserved", Kind::StringMap)
        .flag("kube-reserved")
        .allowed(
            "a map of `cpu`, `memory`, `ephemeral-storage` or `pid` to a quantity of zero or more",
        )
        .about(
            "What is kept from pods for the kubelet and the container runtime. What these need \
             grows with the number of pods.",
        ),
    row("reservedSystemCPUs", Kind::String)
        .flag("reserved-cpus")
        .allowed(
            "a list of CPUs such as `0-3,8`, and empty while systemReservedCgroup or \
             kubeReservedCgroup is set",
        )
        .about(
            "The very CPUs that are kept for the system; the static CPU policy hands out none of \
             them. It takes the place of the cpu figures in systemReserved and kubeReserved.",
        ),
    row("showHiddenMetricsForVersion", Kind::String)
        .allowed("empty or the previous minor release, `1.35`")
        .about(
            "Brings back, for one more release, metrics that were deprecated in the named release \
             and are hidden in this one. A stopgap while dashboards move.",
        ),
    row("systemReservedCgroup", Kind::String)
        .flag("system-reserved-cgroup")
        .allowed(
            "set while enforceNodeAllocatable has system-reserved or system-reserved-compressible",
        )
        .about(
            "The cgroup of the system's processes, for example /system.slice, on which \
             systemReserved is enforced.",
        ),
    row("kubeReservedCgroup", Kind::String)
        .flag("kube-reserved-cgroup")
        .allowed("set while enforceNodeAllocatable has kube-reserved or kube-reserved-compressible")
        .about(
            "The cgroup of the kubelet and the container runtime, on which kubeReserved is \
             enforced.",
        ),
    row("enforceNodeAllocatable", Kind::Strings)
        .emptiable()
        .json(r#"["pods"]"#)
        .flag("enforce-node-allocatable")
        .allowed(
            "a list without repeats of `pods`, `system-reserved` or \
             `system-reserved-compressible`, and `kube-reserved` or `kube-reserved-compressible`; \
             or `none` alone",
        )
        .about(
            "On whom the reservations are enforced. pods keeps all pods together out of what is \
             reserved; the others hold the system's or the kubelet's own processes to their \
             share, which can get them killed, so try those with care. The -compressible ones \
             limit only CPU.",
        ),
    row("allowedUnsafeSysctls", Kind::Strings)
        .flag("allowed-unsafe-sysctls")
        .allowed(
            "a list of namespaced sysctls, or of prefixes that end in `*`, for example \
             `net.core.somaxconn` or `kernel.msg*`",
        )
        .about(
            "Kernel settings, beyond the safe ones, that pods here may ask for. A bad value can \
             hurt the whole node, so allow single names and only for pods that you trust.",
        ),
    row("volumePluginDir", Kind::String)
        .json(r#""/usr/libexec/kubernetes/kubelet-plugins/volume/exec/""#)
        .flag("volume-plugin-dir")
        .about(
            "Where FlexVolume drivers are looked for; CSI drivers do not need it. Change it if \
             such a driver is in use and /usr cannot be written.",
        ),
    row("providerID", Kind::String).flag("provider-id").about(
        "The cloud's own name for this machine, for the node object. The cloud's controller \
             normally fills it in; set it where that cannot find the machine by its node name.",
    ),
    row("kernelMemcgNotification", Kind::Bool)
        .flag("kernel-memcg-notification")
        .about(
            "Has the kernel tell at once when memory crosses an eviction limit, instead of \
             finding out at the next look. Turn it on where memory fills up fast.",
        ),
    row("logging", Kind::Object).about("What is logged, and in which form."),
    row("logging.format", Kind::String)
        .json(r#""text""#)
        .flag("logging-format")
        .allowed("`text` or `json`")
        .about("text is lines for people, json is an object per line for log collectors."),
    row("logging.flushFrequency", Kind::DurationOrNanos)
        .printed()
        .json(r#""5s""#)
        .flag("log-flush-frequency")
        .allowed("longer than zero")
        .about(
            "The longest that a log line may stay in a buffer. A bare number counts nanoseconds.",
        ),
    row("logging.verbosity", Kind::Uint32)
        .printed()
        .flag("v")
        .allowed("at most 2147483647")
        .about(
            "How much is logged: 0 is the least, 2 is the usual choice, 4 is for finding faults, \
             and from 6 on requests are shown. More costs CPU and disk.",
        ),
    row("logging.vmodule", Kind::Objects)
        .flag("vmodule")
        .allowed("empty unless logging.format is text")
        .about("Another verbosity for some source files, to watch one part closely."),
    row("logging.vmodule[].filePattern", Kind::String)
        .printed()
        .allowed("a pattern without commas and equals signs, and not empty")
        .about(
            "Which source files: a file name without its extension, in which * and ? may stand \
             for other characters.",
        ),
    row("logging.vmodule[].verbosity", Kind::Uint32)
        .printed()
        .allowed("at most 2147483647")
        .about("The verbosity for these files."),
    row("logging.options", Kind::Object).about(
        "Settings of single formats. They are checked even for the format that is not in use.",
    ),
    row("logging.options.text", Kind::Object).about("Settings of the text format."),
    row("logging.options.text.splitStream", Kind::Bool)
        .flag("log-text-split-stream")
        .gated("LoggingAlphaOptions")
        .allowed("false while the gate LoggingAlphaOptions is off")
        .about("Writes errors to stderr and the rest to stdout, instead of everything to stderr."),
    row("logging.options.text.infoBufferSize", Kind::Quantity)
        .flag("log-text-info-buffer-size")
        .gated("LoggingAlphaOptions")
        .allowed("zero while the gate LoggingAlphaOptions is off")
        .about(
            "How many bytes for stdout are gathered before they are written, with splitStream; 0 \
             writes each line at once.",
        ),
    row("logging.options.json", Kind::Object).about("Settings of the JSON format."),
    row("logging.options.json.splitStream", Kind::Bool)
        .flag("log-json-split-stream")
        .gated("LoggingAlphaOptions")
        .allowed("false while the gate LoggingAlphaOptions is off")
        .about("Writes errors to stderr and the rest to stdout, instead of everything to stderr."),
    row("logging.options.json.infoBufferSize", Kind::Quantity)
        .flag("log-json-info-buffer-size")
        .gated("LoggingAlphaOptions")
        .allowed("zero while the gate LoggingAlphaOptions is off")
        .about(
            "How many bytes for stdout are gathered before they are written, with splitStream; 0 \
             writes each line at once. More than 2Gi counts as 2Gi.",
        ),
];
