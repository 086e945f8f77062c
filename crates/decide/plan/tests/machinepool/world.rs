//! Two clusters in memory: a management cluster with pools and the objects of made-up providers, and a workload cluster with
//! Nodes. Decisions are performed on them as the applier would.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt as _};
use seaworthy_api::cluster::v1beta2::{Cluster, Machine, MachinePool};
use seaworthy_api::vocabulary::cluster::{Contract, label};
use seaworthy_change::memory::{self, merge};
use seaworthy_change::{Action, Change, ObjectRef, ResourceType, Table, Tables};
use seaworthy_plan::machinepool::{
    Decided, External, FoundObject, InfraMachine, InfraMachines, Inputs, NodeDeletion, NodeIndex, PoolIndex, Problem,
    Report, Unreachable, UpToDateRule, Workload, WorkloadNode, cluster_name, decide, infrastructure_machine_kind,
    is_initialized, pool_name,
};
use serde_json::{Value, json};

pub use super::objects::*;

pub const NAMESPACE: &str = "ns";

/// How the workload cluster is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Connection {
    Up,
    Down { since: Timestamp },
}

/// What a reference leads to, where it is not what is in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lookup {
    AsFound,
    NotInstalled,
    Unreadable,
}

#[derive(Clone, Debug)]
pub struct World {
    pub management: Tables,
    pub workload: Tables,
    pub connection: Connection,
    pub bootstrap: Lookup,
    pub infrastructure: Lookup,
    pub contract: Option<Contract>,
    pub node_deletion: NodeDeletion<'static>,
    pub up_to_date: UpToDateRule,
    pub now: Timestamp,
    uids: u32,
}

impl World {
    /// Empty clusters.
    pub fn empty() -> World {
        World {
            management: Tables::default()
                .with::<MachinePool>()
                .with::<Cluster>()
                .with::<Machine>()
                .with::<GenericBootstrapConfig>()
                .with::<GenericInfrastructureMachinePool>()
                .with::<GenericInfrastructureMachine>(),
            workload: Tables::default().with::<Node>(),
            connection: Connection::Up,
            bootstrap: Lookup::AsFound,
            infrastructure: Lookup::AsFound,
            contract: Some(Contract::V1Beta2),
            node_deletion: NodeDeletion::NotTried,
            up_to_date: UpToDateRule::Replicas,
            now: START,
            uids: 0,
        }
    }

    /// A Cluster whose control plane answers, a bootstrap object, an infrastructure pool and a pool of this many replicas, which
    /// has its finalizer and is known not to be paused.
    pub fn new(replicas: i32) -> World {
        let mut world = World::bare(replicas);
        world.step();
        world.step();
        world
    }

    /// The same with a pool as users create it.
    pub fn bare(replicas: i32) -> World {
        let mut world = World::empty();
        world.create::<Cluster>(cluster("c"));
        world.create::<GenericBootstrapConfig>(json!({"metadata": {"name": "bc"}, "status": {}}));
        world.create::<GenericInfrastructureMachinePool>(json!({"metadata": {"name": "imp"}, "status": {}}));
        world.create::<MachinePool>(pool("pool", replicas));
        world
    }

    /// A pool of this many machines whose Nodes are ready since a while, at rest.
    pub fn running(replicas: i32) -> World {
        let mut world = World::new(replicas);
        world.bootstrap_ready("data");
        world.machines(replicas);
        for number in 1..=replicas {
            world.node(number);
        }
        world.settle();
        world
    }

    // === Objects ===

    /// Stores an object with an identity of its own.
    pub fn create<K>(&mut self, mut object: Value)
    where
        K: Resource<DynamicType = ()> + 'static,
        K::Scope: seaworthy_change::Scope,
    {
        self.uids += 1;
        let metadata = &mut object["metadata"];
        let kind = K::kind(&()).to_lowercase();
        let is_node = kind == "node";
        if !is_node && metadata["namespace"].is_null() {
            metadata["namespace"] = json!(NAMESPACE);
        }
        metadata["uid"] = json!(format!("{kind}-{}", self.uids));
        metadata["resourceVersion"] = json!("1");
        metadata["generation"] = json!(1);
        let tables = if is_node { &mut self.workload } else { &mut self.management };
        let resource = ResourceType::of::<K>();
        tables.table_mut(&resource).unwrap().put(object).unwrap();
    }

    fn table<K>(&mut self) -> &mut dyn Table
    where
        K: Resource<DynamicType = ()>,
        K::Scope: seaworthy_change::Scope,
    {
        let resource = ResourceType::of::<K>();
        let tables = if resource.kind == "Node" { &mut self.workload } else { &mut self.management };
        tables.table_mut(&resource).unwrap()
    }

    fn reference<K>(name: &str) -> ObjectRef
    where
        K: Resource<DynamicType = ()>,
        K::Scope: seaworthy_change::Scope,
    {
        let namespace = Some(NAMESPACE.to_owned());
        let metadata = ObjectMeta { name: Some(name.to_owned()), namespace, ..ObjectMeta::default() };
        ObjectRef::with(ResourceType::of::<K>(), &metadata)
    }

    /// Merges a patch into an object, as a user, a provider or a kubelet would.
    pub fn patch<K>(&mut self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = ()>,
        K::Scope: seaworthy_change::Scope,
    {
        let object = World::reference::<K>(name);
        let table = self.table::<K>();
        let mut found = table.get(&object).unwrap_or_else(|| panic!("no {object}"));
        if patch.get("spec").is_some() {
            let generation = found["metadata"]["generation"].as_i64().unwrap_or_default();
            found["metadata"]["generation"] = json!(generation + 1);
        }
        merge(&mut found, &patch);
        table.put(found).unwrap();
    }

    pub fn delete<K>(&mut self, name: &str)
    where
        K: Resource<DynamicType = ()>,
        K::Scope: seaworthy_change::Scope,
    {
        let object = World::reference::<K>(name);
        assert!(self.table::<K>().remove(&object), "no {object}");
    }

    pub fn json<K>(&self, name: &str) -> Option<Value>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: seaworthy_change::Scope,
    {
        self.clone().table::<K>().get(&World::reference::<K>(name))
    }

    // === Shorthands ===

    pub fn pool(&self) -> Value {
        self.json::<MachinePool>("pool").expect("the pool is gone")
    }

    pub fn edit(&mut self, patch: Value) {
        self.patch::<MachinePool>("pool", patch);
    }

    pub fn status(&self) -> Value {
        self.pool()["status"].clone()
    }

    pub fn phase(&self) -> String {
        self.status()["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// An old condition as `True`, or `False Reason Severity`.
    pub fn old(&self, type_: &str) -> String {
        let status = self.status();
        let conditions = status["deprecated"]["v1beta1"]["conditions"].as_array().cloned().unwrap_or_default();
        let Some(found) = conditions.iter().find(|condition| condition["type"] == type_) else {
            return "absent".to_owned();
        };
        let parts = ["status", "reason", "severity"].map(|key| found[key].as_str().unwrap_or_default());
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    pub fn old_number(&self, key: &str) -> i64 {
        self.status()["deprecated"]["v1beta1"][key].as_i64().unwrap_or_default()
    }

    /// A condition as `True Reason`.
    pub fn condition(&self, type_: &str) -> String {
        let found = self.whole_condition(type_);
        if found.is_null() {
            return "absent".to_owned();
        }
        format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
    }

    pub fn message(&self, type_: &str) -> String {
        self.whole_condition(type_)["message"].as_str().unwrap_or_default().to_owned()
    }

    fn whole_condition(&self, type_: &str) -> Value {
        let conditions = self.status()["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
    }

    /// The names of the recorded Nodes.
    pub fn refs(&self) -> Vec<String> {
        let status = self.status();
        let refs = status["nodeRefs"].as_array().cloned().unwrap_or_default();
        refs.iter().map(|found| found["name"].as_str().unwrap().to_owned()).collect()
    }

    pub fn list(&self) -> Vec<String> {
        serde_json::from_value(self.pool()["spec"]["providerIDList"].clone()).unwrap_or_default()
    }

    pub fn nodes(&self) -> Vec<String> {
        let mut names: Vec<String> = self.workload.of::<Node>().iter().map(|node| node.name_any()).collect();
        names.sort();
        names
    }

    pub fn bootstrap_ready(&mut self, secret: &str) {
        let status = json!({"status": {"ready": true, "dataSecretName": secret}});
        self.patch::<GenericBootstrapConfig>("bc", status);
    }

    pub fn infrastructure(&mut self, patch: Value) {
        self.patch::<GenericInfrastructureMachinePool>("imp", patch);
    }

    /// The provider has made machines 1 to this number.
    pub fn machines(&mut self, replicas: i32) {
        let ids: Vec<String> = (1..=replicas).map(id).collect();
        self.listed(&ids.iter().map(String::as_str).collect::<Vec<_>>(), replicas);
    }

    /// The provider lists these IDs and reports this many machines.
    pub fn listed(&mut self, ids: &[&str], replicas: i32) {
        self.infrastructure(json!({"spec": {"providerIDList": ids}, "status": {"ready": true, "replicas": replicas}}));
    }

    /// The Node of a machine appears, ready since an hour.
    pub fn node(&mut self, number: i32) {
        self.create::<Node>(node(&format!("node-{number}"), &id(number)));
    }

    pub fn node_ready(&mut self, number: i32, is_ready: bool, since: Option<Timestamp>) {
        let status = if is_ready { "True" } else { "False" };
        let since = since.map(|since| since.to_string());
        let condition = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
        self.patch::<Node>(&format!("node-{number}"), json!({"status": {"conditions": condition}}));
    }

    pub fn unreachable(&mut self) {
        self.connection = Connection::Down { since: self.now };
    }

    pub fn delete_pool(&mut self) {
        self.edit(json!({"metadata": {"deletionTimestamp": self.now.to_string()}}));
    }

    pub fn later(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub fn exists(&self) -> bool {
        self.json::<MachinePool>("pool").is_some()
    }

    // === Deciding ===

    pub fn index(&self) -> NodeIndex {
        self.workload.of::<Node>().iter().map(|node| WorkloadNode::of(node)).collect()
    }

    pub fn decide(&self) -> Decided {
        self.decide_about("pool")
    }

    pub fn decide_about(&self, name: &str) -> Decided {
        let pools = self.management.of::<MachinePool>();
        let pool = pools.iter().find(|pool| pool.name_any() == name).expect("no such pool");
        let cluster =
            self.management.of::<Cluster>().iter().find(|found| Some(&*found.name_any()) == cluster_name(pool));
        let mut index = PoolIndex::default();
        for other in pools.iter().filter(|other| cluster_name(other) == cluster_name(pool)) {
            index.set(other);
        }
        let template = &pool.spec.template.spec;
        let config = template.bootstrap.config_ref.as_ref().filter(|reference| reference.is_defined());
        let find_config = |name: &str| {
            let all = self.management.of::<GenericBootstrapConfig>();
            all.iter().find(|found| found.name_any() == name).map(|found| serde_json::to_value(&**found).unwrap())
        };
        let bootstrap = config.and_then(|reference| find_config(&reference.name));
        let config_type = ResourceType::of::<GenericBootstrapConfig>();
        let all = self.management.of::<GenericInfrastructureMachinePool>();
        let found = all.iter().find(|found| found.name_any() == template.infrastructure_ref.name);
        let infrastructure = found.map(|found| serde_json::to_value(&**found).unwrap());
        let infrastructure_type = ResourceType::of::<GenericInfrastructureMachinePool>();
        let infrastructure = self.external(self.infrastructure, infrastructure.as_ref(), &infrastructure_type);
        let bootstrap = match config {
            None => External::Undefined,
            Some(_) => self.external(self.bootstrap, bootstrap.as_ref(), &config_type),
        };
        let machine_kind = match infrastructure {
            External::Found(found) => infrastructure_machine_kind(found).ok().flatten(),
            _ => None,
        };
        let value = pool_name::label_value(name);
        let is_of_pool = |found: &&Arc<GenericInfrastructureMachine>| {
            label::POOL_NAME.of(&found.metadata) == Some(&value)
                && label::CLUSTER_NAME.of(&found.metadata) == cluster_name(pool)
        };
        let all = self.management.of::<GenericInfrastructureMachine>();
        let infra_machines: Vec<InfraMachine> = all
            .iter()
            .filter(is_of_pool)
            .map(|found| InfraMachine {
                api_group: GenericInfrastructureMachine::group(&()).into_owned(),
                kind: GenericInfrastructureMachine::kind(&()).into_owned(),
                name: found.name_any(),
                provider_id: found.spec["providerID"].as_str().map(str::to_owned),
                is_deleting: found.metadata.deletion_timestamp.is_some(),
            })
            .collect();
        let nodes = self.index();
        let workload = match (cluster, &self.connection) {
            (Some(cluster), _) if !is_initialized(cluster) => Workload::NotInitialized,
            (_, Connection::Down { since }) => {
                Workload::Unreachable(Unreachable { reason: "connection refused", since: *since, next_try: None })
            }
            (_, Connection::Up) => Workload::Known(&nodes),
        };
        decide(&Inputs {
            pool,
            cluster: cluster.map(|cluster| &**cluster),
            bootstrap,
            infrastructure,
            infra_machines: match machine_kind {
                Some(_) => InfraMachines::Known(&infra_machines),
                None => InfraMachines::Unknown { reason: "they have no kind" },
            },
            machines: self.management.of::<Machine>(),
            workload,
            pools: &index,
            node_deletion: self.node_deletion,
            up_to_date: self.up_to_date,
            now: self.now,
        })
    }

    fn external<'a>(&self, lookup: Lookup, object: Option<&'a Value>, resource: &'a ResourceType) -> External<'a> {
        match (lookup, object) {
            (Lookup::NotInstalled, _) => External::KindNotInstalled { definition: "generics.example.com" },
            (Lookup::Unreadable, _) => External::Unreadable { reason: "forbidden" },
            (Lookup::AsFound, None) => External::NotFound,
            (Lookup::AsFound, Some(object)) => {
                External::Found(FoundObject { object, resource, contract: self.contract })
            }
        }
    }

    /// Performs a decision. Objects with a new spec have a new generation, and a deleted pool without finalizers is gone.
    pub fn perform(&mut self, decided: &Decided) {
        memory::perform(&decided.management, &mut self.management, self.now).result().unwrap();
        memory::perform(&decided.workload, &mut self.workload, self.now).result().unwrap();
        let pool_type = ResourceType::of::<MachinePool>();
        let is_edit = |change: &Change| match &change.action {
            Action::Patch(patch) => change.object.resource == pool_type && patch.get("spec").is_some(),
            _ => false,
        };
        for change in decided.management.changes().filter(is_edit) {
            let table = self.management.table_mut(&pool_type).unwrap();
            let mut pool = table.get(&change.object).unwrap();
            pool["metadata"]["generation"] = json!(pool["metadata"]["generation"].as_i64().unwrap() + 1);
            table.put(pool).unwrap();
        }
        let is_gone = |pool: &MachinePool| {
            pool.metadata.deletion_timestamp.is_some() && pool.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
        };
        self.management.of_mut::<MachinePool>().retain(|pool| !is_gone(pool));
    }

    /// One decision, performed.
    pub fn step(&mut self) -> Report {
        let decided = self.decide();
        self.perform(&decided);
        decided.management.report
    }

    /// Decides until nothing changes. Returns the last report.
    pub fn settle(&mut self) -> Report {
        let mut report = None;
        for _ in 0..10 {
            if !self.exists() {
                return report.expect("the pool was gone before");
            }
            let decided = self.decide();
            if decided.is_empty() {
                return decided.management.report;
            }
            self.perform(&decided);
            report = Some(decided.management.report);
        }
        panic!("never at rest: {:#?}", self.decide());
    }

    /// The texts of the problems of the last decision.
    pub fn problems(&self) -> Vec<String> {
        self.decide().management.report.problems.iter().map(Problem::to_string).collect()
    }
}
