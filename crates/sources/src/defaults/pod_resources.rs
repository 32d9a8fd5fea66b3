//! Resources of a pod as a whole, seen from manifests.

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::defaults::api_defaults;
    use crate::testing::pod;

    fn resources(spec: &str) -> Value {
        let mut pod = pod(&format!("spec: {{{spec}}}"));
        api_defaults(&mut pod);
        serde_json::to_value(pod.spec.unwrap().resources).unwrap()
    }

    #[test]
    fn requests_of_the_whole_follow_its_containers_then_its_limits() {
        let containers = "containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b, resources: {requests: {cpu: 200m}}}], initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 50m}}}, {name: i, resources: {requests: {cpu: '1'}}}]";
        let expected = json!({
            "limits": {"cpu": "2", "memory": "1Gi"},
            "requests": {"cpu": "1050m", "memory": "1Gi"},
        });
        let found = resources(&format!(
            "{containers}, resources: {{limits: {{cpu: '2', memory: 1Gi}}}}"
        ));
        assert_eq!(found, expected);
        assert_eq!(resources(containers), Value::Null);
    }

    #[test]
    fn huge_pages_of_the_whole_follow_the_containers_limits() {
        let found = resources(
            "containers: [{name: a, resources: {limits: {hugepages-2Mi: 4Mi, cpu: '1'}}}], resources: {requests: {cpu: '1'}}",
        );
        let expected = json!({
            "limits": {"hugepages-2Mi": "4Mi"},
            "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"},
        });
        assert_eq!(found, expected);
    }
}
