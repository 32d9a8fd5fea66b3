//! What goes through the API server to a node and back, as long as somebody listens.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::cluster::{Cluster, PATIENCE};

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: talker
  annotations: {sim.ferrolet.dev/log-lines: 5/s, sim.ferrolet.dev/http: echo}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox}
";

#[test]
fn who_attaches_hears_a_container_and_a_forwarded_port_is_the_pods() {
    let cluster = Cluster::ephemeral();
    cluster.ok_with(&["apply", "-f", "-"], POD);
    let wait = ["wait", "--for=condition=Ready", "--timeout=60s"];
    cluster.ok(&[&wait[..], &["pod/talker"]].concat());

    let mut kubectl = cluster.start(&["attach", "talker"]);
    let number = |line: String| -> u64 {
        let number = line.strip_prefix("simulated line ");
        number.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
    };
    let first = number(kubectl.line());
    assert_eq!(number(kubectl.line()), first + 1);
    drop(kubectl);

    let mut kubectl = cluster.start(&["port-forward", "talker", ":8080"]);
    let line = kubectl.line();
    let port = line.strip_prefix("Forwarding from 127.0.0.1:");
    let port = port.and_then(|rest| rest.split(' ').next());
    let port: u16 = port.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    // What listens in a simulated pod says what it hears.
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(b"say it again").unwrap();
    let mut heard = [0; 12];
    connection.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"say it again");
}

#[test]
fn a_container_for_debugging_joins_a_pod_that_runs() {
    let cluster = Cluster::ephemeral();
    cluster.ok_with(&["apply", "-f", "-"], POD);
    let ready = ["wait", "--for=condition=Ready", "--timeout=60s"];
    cluster.ok(&[&ready[..], &["pod/talker"]].concat());
    let debug = ["debug", "talker", "--image=busybox", "--container=looks"];
    cluster.ok(&[&debug[..], &["--", "sleep", "1000"]].concat());
    let running = "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.running}";
    cluster.ok(&["wait", running, "pod/talker", "--timeout=60s"]);
    let pod = cluster.json(&["get", "pod", "talker"]);
    let status = &pod["status"]["ephemeralContainerStatuses"];
    assert_eq!(status[0]["name"], "looks");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    let said = cluster.ok(&["exec", "talker", "--container=looks", "--", "echo", "here"]);
    assert_eq!(said, "here\n");
}
