use super::*;

fn interface(name: &str, addresses: &[&str]) -> Interface {
    Interface {
        name: name.to_owned(),
        up: true,
        loopback: name == "lo",
        point_to_point: name.starts_with("tun"),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
    }
}

fn route(interface: &str, ipv6: bool) -> DefaultRoute {
    DefaultRoute {
        ipv6,
        interface: interface.to_owned(),
    }
}

fn network() -> Network {
    Network {
        interfaces: vec![
            interface("lo", &["127.0.0.1", "::1"]),
            interface("eth0", &["169.254.1.1", "10.0.0.5", "fe80::1", "fd00::5"]),
            interface("eth1", &["192.168.7.7"]),
        ],
        routes: Some(vec![route("eth0", false), route("eth0", true)]),
        looked_up: Vec::new(),
    }
}

fn identity(node_ip: &str) -> Identity {
    Identity {
        node_name: "n1".to_owned(),
        hostname: "n1".to_owned(),
        node_ip: NodeIp::read(node_ip).unwrap().0,
        external_cloud: false,
    }
}

fn listed(identity: &Identity, network: &Network) -> Result<String, String> {
    let told = told(identity, network, false).map_err(|error| error.to_string())?;
    let addresses = told.addresses.unwrap().into_iter();
    let listed: Vec<String> = addresses
        .map(|address| format!("{}={}", address.type_, address.address))
        .collect();
    Ok(listed.join(" "))
}

#[test]
fn the_flag_is_nothing_one_address_or_a_pair() {
    let address = |text: &str| -> IpAddr { text.parse().unwrap() };
    for (text, expected) in [
        ("", NodeIp::Unset),
        ("0.0.0.0", NodeIp::AnyOf(Family::V4)),
        ("::", NodeIp::AnyOf(Family::V6)),
        ("10.0.0.5", NodeIp::One(address("10.0.0.5"))),
        ("010.0.0.05", NodeIp::One(address("10.0.0.5"))),
        ("::ffff:10.0.0.5", NodeIp::One(address("10.0.0.5"))),
        ("x, 10.0.0.5", NodeIp::One(address("10.0.0.5"))),
        (
            " fd00::5 , 10.0.0.5",
            NodeIp::Two(address("fd00::5"), address("10.0.0.5")),
        ),
    ] {
        assert_eq!(NodeIp::read(text).unwrap().0, expected, "{text:?}");
    }
    assert_eq!(NodeIp::read("x,,1.2.3.4").unwrap().1, ["x", ""]);
    for bad in [
        "10.0.0.5,10.0.0.6",
        "10.0.0.5,fd00::5,10.0.0.6",
        "0.0.0.0,fd00::5",
        "10.0.0.5,::",
    ] {
        assert!(NodeIp::read(bad).is_err(), "{bad}");
    }
}

#[test]
fn given_addresses_are_told_of_in_their_order() {
    for (flag, expected) in [
        ("192.168.7.7", "InternalIP=192.168.7.7 Hostname=n1"),
        ("fd00::5", "InternalIP=fd00::5 Hostname=n1"),
        (
            "fd00::5,10.0.0.5",
            "InternalIP=fd00::5 InternalIP=10.0.0.5 Hostname=n1",
        ),
    ] {
        assert_eq!(listed(&identity(flag), &network()).as_deref(), Ok(expected));
    }
}

#[test]
fn a_given_address_must_be_one_of_this_machine() {
    for (flag, fault) in [
        ("127.0.0.1", "loopback"),
        ("224.0.0.1", "multicast"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("10.9.9.9", "no network interface"),
        ("10.0.0.5,fd00::6", "no network interface"),
    ] {
        let error = listed(&identity(flag), &network()).unwrap_err();
        assert!(error.contains(fault), "{flag}: {error}");
    }
}

#[test]
fn without_one_the_default_route_leads_to_it() {
    for (flag, expected) in [("", "10.0.0.5"), ("0.0.0.0", "10.0.0.5"), ("::", "fd00::5")] {
        let expected = format!("InternalIP={expected} Hostname=n1");
        assert_eq!(listed(&identity(flag), &network()), Ok(expected), "{flag}");
    }
    let mut only_v6 = network();
    only_v6.routes = Some(vec![route("eth0", true)]);
    assert_eq!(
        listed(&identity(""), &only_v6).as_deref(),
        Ok("InternalIP=fd00::5 Hostname=n1")
    );
}

#[test]
fn an_interface_without_a_global_address_gives_way_to_loopback() {
    let mut network = network();
    network.interfaces[0] = interface("lo", &["127.0.0.1", "10.99.0.1"]);
    network.interfaces[1] = interface("eth0", &["169.254.1.1"]);
    assert_eq!(
        listed(&identity(""), &network).as_deref(),
        Ok("InternalIP=10.99.0.1 Hostname=n1")
    );
}

#[test]
fn without_a_routing_table_any_plain_interface_will_do() {
    let mut network = network();
    network.routes = None;
    network
        .interfaces
        .insert(1, interface("tun0", &["10.8.0.1"]));
    let mut down = interface("eth9", &["10.7.0.1"]);
    down.up = false;
    network.interfaces.insert(1, down);
    assert_eq!(
        listed(&identity(""), &network).as_deref(),
        Ok("InternalIP=10.0.0.5 Hostname=n1")
    );
}

#[test]
fn a_node_without_any_address_says_why() {
    let mut network = network();
    for (routes, cause) in [
        (Some(vec![]), "no default routes"),
        (
            Some(vec![route("eth5", false)]),
            "no interface of a default route",
        ),
        (None, "no interface has"),
    ] {
        network.interfaces.clear();
        network.routes = routes;
        let error = listed(&identity(""), &network).unwrap_err();
        assert!(error.contains(cause) && error.contains("n1"), "{error}");
    }
}

#[test]
fn the_resolver_has_the_first_word_if_it_speaks_of_this_machine() {
    let mut network = network();
    let looked_up = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    for (names, flag, expected) in [
        (vec!["10.9.9.9", "192.168.7.7"], "", "192.168.7.7"),
        (vec!["fd00::5", "192.168.7.7"], "", "192.168.7.7"),
        (vec!["fd00::5"], "", "fd00::5"),
        (vec!["192.168.7.7", "fd00::5"], "::", "fd00::5"),
        (vec!["127.0.0.1"], "", "10.0.0.5"),
    ] {
        network.looked_up = looked_up(&names);
        let expected = format!("InternalIP={expected} Hostname=n1");
        assert_eq!(listed(&identity(flag), &network), Ok(expected), "{names:?}");
    }
}

#[test]
fn a_host_name_that_is_an_address_is_taken_at_its_word() {
    let identity = Identity {
        hostname: "203.0.113.9".to_owned(),
        ..identity("")
    };
    assert!(!identity.needs_lookup());
    assert_eq!(
        listed(&identity, &network()).as_deref(),
        Ok("InternalIP=203.0.113.9 Hostname=203.0.113.9")
    );
}

#[test]
fn an_external_cloud_is_told_of_the_given_address_and_has_the_last_word() {
    for (flag, present, addresses, provided) in [
        ("", false, Some("Hostname=n1"), None),
        ("", true, None, None),
        (
            "0.0.0.0",
            false,
            Some("InternalIP=10.0.0.5 Hostname=n1"),
            None,
        ),
        (
            "10.0.0.5",
            false,
            Some("InternalIP=10.0.0.5 Hostname=n1"),
            Some("10.0.0.5"),
        ),
        ("10.0.0.5,fd00::5", true, None, Some("10.0.0.5,fd00::5")),
    ] {
        let identity = Identity {
            external_cloud: true,
            ..identity(flag)
        };
        let told = told(&identity, &network(), present).unwrap();
        assert_eq!(told.provided.as_deref(), provided, "{flag}");
        assert_eq!(told.addresses.is_some(), addresses.is_some(), "{flag}");
        if let Some(addresses) = addresses {
            assert_eq!(listed(&identity, &network()).as_deref(), Ok(addresses));
        }
    }
}
