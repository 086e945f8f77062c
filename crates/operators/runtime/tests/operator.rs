//! Supervised operators: each runs in a task of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use seaworthy_deploy::{Account, OperatorManifest};
use seaworthy_runtime::operator::{FIRST_RESTART_DELAY, supervise};
use seaworthy_runtime::{
    Availability, CacheSet, Definitions, EnabledControllers, Leadership, Operator, OperatorContext, OperatorInstance,
};
use seaworthy_testkit::Embedded;

/// Panics in its first runs.
struct Fragile {
    name: &'static str,
    panics: usize,
    starts: AtomicUsize,
}

impl Fragile {
    fn new(name: &'static str, panics: usize) -> Arc<Fragile> {
        Arc::new(Fragile { name, panics, starts: AtomicUsize::new(0) })
    }

    fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }
}

impl Operator for Fragile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn required_definitions(&self) -> Vec<CustomResourceDefinition> {
        Vec::new()
    }

    fn manifest(&self, _: &Account) -> OperatorManifest {
        OperatorManifest::default()
    }

    fn start(&self, _: &OperatorContext, _: &EnabledControllers) -> OperatorInstance {
        let panics = self.starts.fetch_add(1, Ordering::SeqCst) < self.panics;
        let controllers = async move {
            assert!(!panics, "a bug");
            std::future::pending().await
        };
        OperatorInstance { caches: CacheSet::default(), controllers: controllers.boxed() }
    }
}

#[tokio::test(start_paused = true)]
async fn operator_that_panics_fails_alone_and_is_started_again_after_a_growing_delay() {
    let client = Embedded::start().await.client();
    let context = OperatorContext {
        client: client.clone(),
        leadership: Leadership::always(),
        metrics: Arc::default(),
        clock: Arc::new(Timestamp::now),
        build: "b1".into(),
        namespace: "default".into(),
    };
    let (fragile, steady) = (Fragile::new("fragile", 2), Fragile::new("steady", 0));
    let operators: [Arc<dyn Operator>; 2] = [fragile.clone(), steady.clone()];
    let (definitions, enabled) = (Definitions::default(), EnabledControllers::All);
    let availability = Availability::new(["fragile", "steady"], Arc::clone(&context.metrics));
    let [supervised, others] =
        operators.each_ref().map(|operator| supervise(operator, &enabled, &context, &definitions, &availability));

    // Without waiting, so that the paused clock does not advance.
    let reports = async |lines: [&str; 2]| {
        while !lines.iter().all(|line| availability.report().contains(line)) {
            tokio::task::yield_now().await;
        }
    };
    let observed = async {
        let failed = ["[-]fragile failed: ", "[+]steady ok"];
        reports(failed).await;
        assert!(availability.report().contains("a bug"), "{}", availability.report());
        assert_eq!(fragile.starts(), 1);
        tokio::time::advance(FIRST_RESTART_DELAY).await;
        while fragile.starts() < 2 {
            tokio::task::yield_now().await;
        }
        reports(failed).await;
        tokio::time::advance(FIRST_RESTART_DELAY).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fragile.starts(), 2, "the second delay is longer");
        tokio::time::advance(FIRST_RESTART_DELAY).await;
        reports(["[+]fragile ok", "[+]steady ok"]).await;
    };
    tokio::select! {
        _ = async { tokio::join!(definitions.run(&client), supervised, others) } => panic!("the supervisors ended"),
        () = observed => {}
    }
    assert_eq!((fragile.starts(), steady.starts()), (3, 1));
}
