use config::flags::CommandLine;
use config::load;

use super::*;
use crate::addresses::Family;
use crate::testdata::printed;

fn settings(arguments: &[&str]) -> Settings {
    let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    let line = CommandLine::parse(&arguments).unwrap();
    let directory = std::path::Path::new("/");
    load::resolve(&line, directory).unwrap().settings
}

fn read(arguments: &[&str], flags: FlagValues) -> Config {
    Config::from_settings(&settings(arguments), flags)
        .unwrap()
        .0
}

#[test]
fn the_defaults_are_the_kubelets() {
    let config = read(&[], FlagValues::default());
    assert_eq!(
        config.timing,
        Timing {
            update: Duration::from_secs(10),
            report: Duration::from_secs(300),
            lease: Duration::from_secs(40),
        }
    );
    assert_eq!(config.timing.renewal(), Duration::from_secs(10));
    assert_eq!(config.port, 10_250);
    assert_eq!(config.most_images, Some(50));
    assert_eq!(
        config.resources.pods,
        PodLimit {
            most: 110,
            per_core: 0
        }
    );
    assert!(config.registration.wanted && config.registration.attach_detach);
    assert!(config.resources.tell_storage);
    assert_eq!(config.registration.provider_id, None);
}

#[test]
fn flags_say_how_to_register() {
    let arguments = [
        "--register-node=false",
        "--register-with-taints=a=b:NoSchedule,c:NoExecute",
        "--provider-id=cloud://1",
        "--node-status-max-images=-1",
        "--max-pods=7",
        "--pods-per-core=3",
        "--node-status-update-frequency=4s",
    ];
    let config = read(&arguments, FlagValues::default());
    assert!(!config.registration.wanted);
    let taints = config.registration.taints.iter();
    let taints: Vec<String> = taints
        .map(|taint| format!("{}={:?}:{}", taint.key, taint.value, taint.effect))
        .collect();
    assert_eq!(taints, ["a=Some(\"b\"):NoSchedule", "c=None:NoExecute"]);
    assert_eq!(
        config.registration.provider_id.as_deref(),
        Some("cloud://1")
    );
    assert_eq!(config.most_images, None);
    assert_eq!(
        config.resources.pods,
        PodLimit {
            most: 7,
            per_core: 3
        }
    );
    assert_eq!(config.timing.update, Duration::from_secs(4));
}

#[test]
fn reserved_cpus_take_the_place_of_reserved_cpu_time() {
    let reserved = [
        "--system-reserved=cpu=500m,memory=1Gi",
        "--kube-reserved=cpu=100m,memory=2Gi",
    ];
    let reservations = |arguments: &[&str]| {
        read(arguments, FlagValues::default())
            .resources
            .reservations
    };
    let plain = reservations(&reserved);
    assert_eq!(printed(&plain.system), "cpu=500m memory=1Gi");
    assert_eq!(printed(&plain.kube), "cpu=100m memory=2Gi");
    let with_cpus = reservations(&[reserved[0], reserved[1], "--reserved-cpus=0-1,4"]);
    assert_eq!(printed(&with_cpus.system), "cpu=3 memory=1Gi");
    assert_eq!(printed(&with_cpus.kube), "memory=2Gi");
}

#[test]
fn eviction_counts_unless_it_is_to_be_ignored() {
    let arguments = ["--eviction-hard=memory.available<200Mi,nodefs.available<5%"];
    for ignore_eviction in [false, true] {
        let flags = FlagValues {
            ignore_eviction,
            ..FlagValues::default()
        };
        let reservations = read(&arguments, flags).resources.reservations;
        let (memory, storage) = (
            reservations.memory_threshold,
            reservations.storage_threshold,
        );
        let expected = |text| Threshold::read(text).filter(|_| !ignore_eviction);
        assert_eq!(memory, expected("200Mi"));
        assert_eq!(storage, expected("5%"));
    }
}

#[test]
fn the_cloud_provider_is_external_or_none() {
    let flags = |cloud: &str, node_ip: &str| FlagValues {
        cloud_provider: cloud.to_owned(),
        node_ip: node_ip.to_owned(),
        ..FlagValues::default()
    };
    assert!(read(&[], flags("external", "")).identity.external_cloud);
    let error = Config::from_settings(&settings(&[]), flags("aws", "")).unwrap_err();
    assert!(error.to_string().contains("use external"), "{error}");
    let (config, notices) = Config::from_settings(&settings(&[]), flags("", "::,x")).unwrap();
    assert_eq!(config.identity.node_ip, NodeIp::AnyOf(Family::V6));
    assert_eq!(notices, ["--node-ip: \"x\" is no IP address, ignored"]);
    assert!(Config::from_settings(&settings(&[]), flags("", "1.1.1.1,2.2.2.2")).is_err());
}

#[test]
fn a_machine_without_what_is_to_be_reserved_is_refused() {
    let host = crate::testdata::TestHost::new();
    for (reserved, fits) in [
        ("memory=1Gi", true),
        ("memory=24Gi", false),
        ("cpu=3", false),
    ] {
        let argument = format!("--kube-reserved={reserved}");
        let mut resources = read(&[&argument], FlagValues::default()).resources;
        resources.root_directory = PathBuf::from("/var/lib/kubelet");
        assert_eq!(resources.check(&host).is_ok(), fits, "{reserved}");
    }
}

#[test]
fn declared_features_are_sorted_and_each_is_named_once() {
    let flags = FlagValues {
        declared_features: ["B", "A", "B"].map(str::to_owned).to_vec(),
        ..FlagValues::default()
    };
    assert_eq!(read(&[], flags).declared_features, ["A", "B"]);
}
