//! Names of containers, read from their engines' files without calling the engines.

use std::collections::BTreeMap;

use iosonde_engine::host::Root;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Largest file read, bytes.
const LARGEST: u64 = 4 << 20;
/// Characters of a container's ID.
const ID: usize = 64;
/// Files of Docker, Podman and containerd (Kubernetes).
const DOCKER: &str = "/var/lib/docker/containers";
const PODMAN: &str = "/var/lib/containers/storage/overlay-containers/containers.json";
const KUBERNETES: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";

/// A file of Docker about one container.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfDocker {
    name: String,
}

/// An entry of Podman's list.
#[derive(Deserialize)]
struct OfPodman {
    id: String,
    names: Vec<String>,
}

/// The OCI description of a container of Kubernetes.
#[derive(Deserialize)]
struct OfKubernetes {
    annotations: BTreeMap<String, String>,
}

/// The names of containers by ID.
pub(super) struct Containers(BTreeMap<String, String>);

impl Containers {
    /// Reads the current names.
    pub(super) fn find(root: &Root) -> Containers {
        let mut names = BTreeMap::new();
        for id in root.names(DOCKER) {
            if let Some(of) = parsed::<OfDocker>(root, &format!("{DOCKER}/{id}/config.v2.json")) {
                names.insert(id, of.name.trim_start_matches('/').to_owned());
            }
        }
        for of in parsed::<Vec<OfPodman>>(root, PODMAN).unwrap_or_default() {
            names.extend(of.names.into_iter().next().map(|name| (of.id, name)));
        }
        for id in root.names(KUBERNETES) {
            let of = parsed::<OfKubernetes>(root, &format!("{KUBERNETES}/{id}/config.json"));
            names.extend(of.and_then(|of| Some((id, in_pod(&of.annotations)?))));
        }
        Containers(names)
    }

    /// The path of a cgroup; for a container, with its name.
    pub(super) fn named(&self, path: String) -> String {
        // Version 1: …/docker/ID. With systemd: …/docker-ID.scope, …/libpod-ID.scope.
        let words = path.rsplit('/').flat_map(|part| part.split(['-', '.', ':']));
        let name = words.filter(|word| word.len() == ID).find_map(|id| self.0.get(id));
        match name {
            Some(name) => format!("{path} (container {name})"),
            None => path,
        }
    }
}

fn parsed<T: DeserializeOwned>(root: &Root, path: &str) -> Option<T> {
    serde_json::from_slice(&root.bytes(path, LARGEST)?).ok()
}

/// `pod/container`.
fn in_pod(annotations: &BTreeMap<String, String>) -> Option<String> {
    let pod = annotations.get("io.kubernetes.cri.sandbox-name")?;
    let container = annotations.get("io.kubernetes.cri.container-name");
    Some(container.map_or_else(|| pod.clone(), |container| format!("{pod}/{container}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    #[test]
    fn containers_of_each_engine_have_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let keep = |path: &str, text: &str| {
            let path = dir.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let [docker, podman, kubernetes] = ["a", "b", "c"].map(|letter| letter.repeat(ID));
        keep(&format!("{DOCKER}/{docker}/config.v2.json"), r#"{"Name": "/web", "ID": ""}"#);
        keep(&format!("{DOCKER}/broken/config.v2.json"), "{");
        keep(PODMAN, &format!(r#"[{{"id": "{podman}", "names": ["db"], "layer": ""}}]"#));
        keep(
            &format!("{KUBERNETES}/{kubernetes}/config.json"),
            r#"{"annotations": {"io.kubernetes.cri.sandbox-name": "shop-0",
                "io.kubernetes.cri.container-name": "cart"}}"#,
        );
        let containers = Containers::find(&Root::at(dir.path()));
        for (path, name) in [
            (format!("/docker/{docker}"), Some("web")),
            (format!("/system.slice/docker-{docker}.scope"), Some("web")),
            (format!("/machine.slice/libpod-{podman}.scope/container"), Some("db")),
            (
                format!("/kubepods.slice/pod7/cri-containerd-{kubernetes}.scope"),
                Some("shop-0/cart"),
            ),
            (format!("/docker/{}", "d".repeat(ID)), None),
            ("/user.slice".to_owned(), None),
        ] {
            let expected = match name {
                Some(name) => format!("{path} (container {name})"),
                None => path.clone(),
            };
            assert_eq!(containers.named(path), expected);
        }
    }
}
