//! A small cluster of plain objects: decisions are carried out on it, and asked for again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use seaworthy_api::machineconfiguration::kubelet_config::TlsSecurityProfile;
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool, SettingsStatus,
    StatusCondition,
};
use seaworthy_api::vocabulary::machineconfiguration::{annotation, label};
use seaworthy_change::memory::merge;
use seaworthy_change::{Action, Change};
use seaworthy_generate::base::{self, Templates};
use seaworthy_generate::container_runtime::{self, AdditionalStores};
use seaworthy_generate::{PoolSettings, SettingsDecision, SettingsInputs, kubelet};
use seaworthy_ignition::Node;
use seaworthy_ignition::data_url;
use seaworthy_render::{Context, MachineConfig as Input, Pool, prepare, render};
use serde_json::{Value, json};

/// The build of the running controller.
pub const BUILD: &str = "build-1";

/// A kind that can be decided about.
pub trait Kind: PoolSettings + Clone + serde::de::DeserializeOwned {
    const KIND: &'static str;
    fn meta(&mut self) -> &mut ObjectMeta;
    fn set_status(&mut self, status: SettingsStatus);
    fn decide(cluster: &Cluster<Self>, object: &Self) -> SettingsDecision;
}

/// Objects of one kind, with pools and MachineConfigs.
#[derive(Clone)]
pub struct Cluster<K> {
    pub objects: BTreeMap<String, K>,
    pub pools: Vec<Arc<MachineConfigPool>>,
    pub machine_configs: BTreeMap<String, Arc<MachineConfig>>,
    pub controller_config: Option<ControllerConfig>,
    pub build: String,
    pub seconds: i64,
    pub tls: Option<TlsSecurityProfile>,
    pub stores: AdditionalStores,
    next_uid: u32,
}

impl<K: Kind> Cluster<K> {
    /// Pools master and worker with their base MachineConfigs.
    pub fn new() -> Self {
        let mut cluster = Self::bare();
        let controller_config = controller_config(json!({}));
        let made = base::machine_configs(&controller_config, &Templates::default(), None, BUILD).unwrap();
        made.into_iter().for_each(|machine_config| cluster.put(machine_config));
        cluster
    }

    /// Pools master and worker, and nothing else.
    pub fn bare() -> Self {
        let pools = base::built_in_pools().into_iter().enumerate().map(|(nth, mut pool)| {
            pool.metadata.uid = Some(format!("pool-uid-{nth}"));
            Arc::new(pool)
        });
        Cluster {
            objects: BTreeMap::new(),
            pools: pools.collect(),
            machine_configs: BTreeMap::new(),
            controller_config: None,
            build: BUILD.to_owned(),
            seconds: 1_000,
            tls: None,
            stores: AdditionalStores::Allowed,
            next_uid: 1,
        }
    }

    /// Adds a pool of the users' own, which inherits from the workers, with the label `pool: <name>`.
    pub fn pool(&mut self, name: &str) {
        let pool = from(json!({
            "metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {"pool": name}},
            "spec": {
                "machineConfigSelector": {"matchExpressions": [
                    {"key": label::ROLE.as_str(), "operator": "In", "values": ["worker", name]},
                ]},
                "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
            },
        }));
        self.pools.push(Arc::new(pool));
    }

    /// Puts a label on a pool.
    pub fn label(&mut self, pool: &str, key: &str) {
        self.edit_pool(pool, |pool| {
            pool.metadata.labels.get_or_insert_default().insert(key.to_owned(), String::new());
        });
    }

    pub fn edit_pool(&mut self, name: &str, edit: impl Fn(&mut MachineConfigPool)) {
        let pool = self.pools.iter_mut().find(|pool| pool.metadata.name.as_deref() == Some(name)).unwrap();
        edit(Arc::make_mut(pool));
    }

    /// Stores an object that selects the pools with a label, as of now.
    pub fn create(&mut self, name: &str, selected: Value, spec: Value) {
        self.seconds += 10;
        let mut spec = spec;
        if K::KIND == "ContainerRuntimeConfig" && spec.get("containerRuntimeConfig").is_none() {
            spec = json!({"containerRuntimeConfig": spec});
        }
        if !selected.is_null() {
            spec["machineConfigPoolSelector"] = selected;
        }
        let object: K = from(json!({
            "metadata": {
                "name": name, "uid": self.uid(), "generation": 1, "resourceVersion": "1",
                "creationTimestamp": Timestamp::from_second(self.seconds).unwrap().to_string(),
            },
            "spec": spec,
        }));
        self.objects.insert(name.to_owned(), object);
    }

    pub fn edit(&mut self, name: &str, edit: impl FnOnce(&mut K)) {
        let object = self.objects.get_mut(name).unwrap();
        edit(object);
        let generation = &mut object.meta().generation;
        *generation = generation.map(|generation| generation + 1);
    }

    /// Marks an object as being deleted.
    pub fn delete(&mut self, name: &str) {
        let now = self.now();
        self.objects.get_mut(name).unwrap().meta().deletion_timestamp = Some(now);
        self.remove_if_finished(name);
    }

    /// Stores a MachineConfig.
    pub fn put(&mut self, mut machine_config: MachineConfig) {
        let uid = self.uid();
        machine_config.metadata.uid.get_or_insert(uid);
        let name = machine_config.metadata.name.clone().unwrap();
        self.machine_configs.insert(name, Arc::new(machine_config));
    }

    /// A MachineConfig of a user's, with files.
    pub fn put_files(&mut self, role: &str, name: &str, files: &[(&str, &str)]) {
        let files = files
            .iter()
            .map(|(path, text)| json!({"path": path, "contents": {"source": data_url::encode(text.as_bytes())}}));
        self.put(from(json!({
            "metadata": {"name": name, "labels": {label::ROLE.as_str(): role}},
            "spec": {"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files.collect::<Value>()}}},
        })));
    }

    /// A MachineConfig as another build of the controller has left it, owned by an object or by none.
    pub fn put_generated(&mut self, role: &str, name: &str, build: &str, owner: Option<&str>) {
        let owners: Vec<Value> = owner
            .map(|owner| {
                let uid = self.objects.get(owner).map_or("gone", |object| object.meta().uid.as_deref().unwrap());
                json!({
                    "apiVersion": "machineconfiguration.openshift.io/v1", "kind": K::KIND, "name": owner, "uid": uid,
                    "controller": true, "blockOwnerDeletion": true,
                })
            })
            .into_iter()
            .collect();
        self.put(from(json!({
            "metadata": {
                "name": name, "labels": {label::ROLE.as_str(): role}, "ownerReferences": owners,
                "annotations": {annotation::GENERATED_BY_CONTROLLER_VERSION.as_str(): build},
            },
            "spec": {"config": {"ignition": {"version": "3.5.0"}}},
        })));
    }

    pub fn now(&self) -> Time {
        Time(Timestamp::from_second(self.seconds).unwrap())
    }

    /// The decision about an object.
    pub fn decide(&self, name: &str) -> SettingsDecision {
        K::decide(self, &self.objects[name])
    }

    /// Decides and carries out, then sees that nothing is left to do.
    pub fn sync(&mut self, name: &str) -> SettingsDecision {
        self.seconds += 1;
        let decision = self.decide(name);
        for change in decision.changes() {
            self.write(name, change);
        }
        self.seconds += 1;
        if self.objects.contains_key(name) {
            let again = self.decide(name);
            assert!(again.is_empty(), "a decision that was performed leaves nothing to do: {again:?}");
        }
        decision
    }

    /// Looks at all objects until nothing changes any more.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            let mut is_quiet = true;
            for name in self.objects.keys().cloned().collect::<Vec<_>>() {
                is_quiet &= self.sync(&name).is_empty();
            }
            if is_quiet {
                return;
            }
        }
        panic!("the objects never settle");
    }

    fn write(&mut self, name: &str, Change { object, action }: Change) {
        match action {
            Action::Patch(patch) => {
                assert_eq!((object.resource.kind.as_ref(), object.name.as_str()), (K::KIND, name));
                let metadata = self.objects.get_mut(name).unwrap().meta();
                let mut patched = serde_json::to_value(&*metadata).unwrap();
                merge(&mut patched, &patch["metadata"]);
                *metadata = serde_json::from_value(patched).unwrap();
                self.remove_if_finished(name);
            }
            Action::Create(machine_config) => {
                assert!(!self.machine_configs.contains_key(&object.name), "{object} exists");
                self.put(serde_json::from_value(machine_config).unwrap());
            }
            Action::Replace(machine_config) => {
                assert!(self.machine_configs.contains_key(&object.name), "{object} does not exist");
                self.put(serde_json::from_value(machine_config).unwrap());
            }
            Action::Delete => {
                let gone = self.machine_configs.remove(&object.name).unwrap();
                assert_eq!(gone.metadata.uid, object.uid);
            }
            Action::PatchStatus(mut patch) => {
                let status = serde_json::from_value(patch["status"].take()).unwrap();
                self.objects.get_mut(name).unwrap().set_status(status);
            }
            Action::Emit(_) => {}
            other => panic!("no change of this kind is expected: {other:?}"),
        }
    }

    fn remove_if_finished(&mut self, name: &str) {
        let metadata = self.objects[name].meta();
        if metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().next().is_none() {
            self.objects.remove(name);
        }
    }

    fn uid(&mut self) -> String {
        self.next_uid += 1;
        format!("00000000-0000-0000-0000-{:012}", self.next_uid)
    }

    // === What there is ===

    /// The names of generated MachineConfigs.
    pub fn generated(&self) -> Vec<&str> {
        self.machine_configs.keys().map(String::as_str).filter(|name| name.contains("-generated-")).collect()
    }

    /// The text of a file of a MachineConfig.
    pub fn file(&self, machine_config: &str, path: &str) -> Option<String> {
        file_of(self.machine_configs[machine_config].spec.config.as_ref().unwrap(), path)
    }

    /// The paths of a MachineConfig's files, in their order.
    pub fn paths(&self, machine_config: &str) -> Vec<String> {
        let config = self.machine_configs[machine_config].spec.config.as_ref().unwrap();
        let files = config.pointer("/storage/files").and_then(Value::as_array);
        files.into_iter().flatten().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    }

    /// The text of a file as the nodes of a pool get it.
    pub fn rendered(&self, pool: &str, path: &str) -> Option<String> {
        let objects: Vec<Value> =
            self.machine_configs.values().map(|object| serde_json::to_value(object.as_ref()).unwrap()).collect();
        let read = |(nth, object)| {
            let mut node = Node::from_json(object);
            node.number(nth as u32);
            Input::read(node)
        };
        let inputs: Vec<Input<'_>> = objects.iter().enumerate().map(read).collect();
        let prepared: Vec<_> = inputs.iter().map(prepare).collect();
        let pool = self.pools.iter().find(|found| found.metadata.name.as_deref() == Some(pool)).unwrap();
        let pool = serde_json::to_value(pool.as_ref()).unwrap();
        let pool = Pool::read(&Node::from_json(&pool)).unwrap();
        let rendered = render(&pool, &prepared, &Context::default()).unwrap();
        file_of(&rendered.spec.to_json()["config"], path)
    }

    pub fn conditions(&self, name: &str) -> &[StatusCondition] {
        self.objects[name].status().unwrap().conditions.as_deref().unwrap()
    }

    /// Type, status and message of the last condition.
    pub fn last(&self, name: &str) -> (String, String, String) {
        let last = self.conditions(name).last().unwrap().clone();
        (last.type_.unwrap(), last.status.unwrap(), last.message.unwrap())
    }

    /// The message of a failure.
    #[track_caller]
    pub fn failure(&self, name: &str) -> String {
        let (kind, _, message) = self.last(name);
        assert_eq!(kind, "Failure", "{message}");
        message
    }

    #[track_caller]
    pub fn assert_success(&self, name: &str) {
        assert_eq!(self.last(name), ("Success".into(), "True".into(), "Success".into()));
        let metadata = self.objects[name].meta();
        assert_eq!(self.objects[name].status().unwrap().observed_generation, metadata.generation);
    }

    pub fn suffix(&self, name: &str) -> Option<&str> {
        annotation::MC_NAME_SUFFIX.of(self.objects[name].meta())
    }

    pub fn finalizers(&self, name: &str) -> &[String] {
        self.objects[name].meta().finalizers.as_deref().unwrap_or_default()
    }

    fn inputs<'a>(
        &'a self,
        object: &'a K,
        all: &'a [Arc<K>],
        configs: &'a [Arc<MachineConfig>],
    ) -> SettingsInputs<'a, K> {
        SettingsInputs {
            object,
            all,
            pools: &self.pools,
            machine_configs: configs,
            controller_config: self.controller_config.as_ref(),
            build: &self.build,
            now: self.now(),
        }
    }

    fn parts(&self) -> (Vec<Arc<K>>, Vec<Arc<MachineConfig>>) {
        (self.objects.values().cloned().map(Arc::new).collect(), self.machine_configs.values().cloned().collect())
    }
}

impl Kind for KubeletConfig {
    const KIND: &'static str = "KubeletConfig";

    fn meta(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn set_status(&mut self, status: SettingsStatus) {
        self.status = Some(status);
    }

    fn decide(cluster: &Cluster<Self>, object: &Self) -> SettingsDecision {
        let (all, configs) = cluster.parts();
        kubelet::desired(&cluster.inputs(object, &all, &configs), cluster.tls.as_ref())
    }
}

impl Kind for ContainerRuntimeConfig {
    const KIND: &'static str = "ContainerRuntimeConfig";

    fn meta(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn set_status(&mut self, status: SettingsStatus) {
        self.status = Some(status);
    }

    fn decide(cluster: &Cluster<Self>, object: &Self) -> SettingsDecision {
        let (all, configs) = cluster.parts();
        container_runtime::desired(&cluster.inputs(object, &all, &configs), cluster.stores)
    }
}

/// Selects a built-in pool by its conventional label.
pub fn built_in(pool: &str) -> Value {
    json!({"matchLabels": {format!("{}{pool}", label::POOL_PREFIX): ""}})
}

/// Selects pools with the label `pool` of one of these values.
pub fn pools(names: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": names}]})
}

/// Selects pools with a label of an empty value.
pub fn labelled(key: &str) -> Value {
    json!({"matchLabels": {key: ""}})
}

/// A ControllerConfig with these fields.
pub fn controller_config(spec: Value) -> ControllerConfig {
    from(json!({
        "metadata": {"name": "machine-config-controller", "uid": "cc", "generation": 1},
        "spec": spec,
    }))
}

pub fn from<T: serde::de::DeserializeOwned>(mut json: Value) -> T {
    if json.get("metadata").is_some() {
        json["apiVersion"] = "machineconfiguration.openshift.io/v1".into();
        json["kind"] = std::any::type_name::<T>().rsplit("::").next().unwrap().into();
    }
    serde_json::from_value(json).unwrap()
}

pub fn file_of(config: &Value, path: &str) -> Option<String> {
    let files = config.pointer("/storage/files")?.as_array()?;
    let file = files.iter().find(|file| file["path"] == path)?;
    let bytes = data_url::decode(file["contents"]["source"].as_str().unwrap()).unwrap();
    Some(String::from_utf8(bytes.into_owned()).unwrap())
}

/// The names that a decision creates, updates and deletes.
pub fn done(decision: &SettingsDecision) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    let mut names = (Vec::new(), Vec::new(), Vec::new());
    for Change { object, action } in decision.stages.iter().flat_map(|stage| &stage.changes) {
        match action {
            Action::Create(_) => names.0.push(object.name.as_str()),
            Action::Replace(_) => names.1.push(object.name.as_str()),
            Action::Delete => names.2.push(object.name.as_str()),
            _ => {}
        }
    }
    names
}

/// The patch of the object that a decision begins with.
#[track_caller]
pub fn first_patch(decision: &SettingsDecision) -> Value {
    match decision.changes().next() {
        Some(Change { action: Action::Patch(patch), .. }) => patch,
        other => panic!("{other:?}"),
    }
}
