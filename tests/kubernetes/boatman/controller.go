package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	core "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

const (
	manager   = "boatman"
	finalizer = "example.com/mooring"
)

// candidate is a controller that works while it leads.
type candidate struct {
	start, stop func()
	leads       func() bool
}

// candidate makes one that takes part in the election once it is started.
func (s scenario) candidate(ctx context.Context, name string) candidate {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: manager, Namespace: namespace},
		Client:     s.typed.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: s.work,
			OnStoppedLeading: func() {},
		},
	})
	must("join the election", err)
	return candidate{
		start: func() {
			go func() {
				defer close(ended)
				elector.Run(ctx)
			}()
		},
		stop:  func() { cancel(); <-ended },
		leads: elector.IsLeader,
	}
}

// worker reads from caches and writes to the server.
type worker struct {
	scenario
	boats  cache.GenericLister
	maps   listers.ConfigMapLister
	events record.EventRecorder
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func (s scenario) work(ctx context.Context) {
	boats := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.dynamic, 0, namespace, nil)
	maps := informers.NewSharedInformerFactoryWithOptions(s.typed, 0, informers.WithNamespace(namespace))
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: s.typed.CoreV1().Events(namespace)})
	w := worker{
		scenario: s,
		boats:    boats.ForResource(boatsResource).Lister(),
		maps:     maps.Core().V1().ConfigMaps().Lister(),
		events:   broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: manager}),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Second)),
	}
	notice := func(informer cache.SharedIndexInformer, name func(object any) (cache.ObjectName, bool)) {
		add := func(object any) {
			if name, ok := name(object); ok {
				w.queue.Add(name)
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: add, UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: add,
		})
		must("watch", err)
	}
	notice(boats.ForResource(boatsResource).Informer(), nameOf)
	notice(maps.Core().V1().ConfigMaps().Informer(), ownerOf)
	boats.Start(ctx.Done())
	maps.Start(ctx.Done())
	boats.WaitForCacheSync(ctx.Done())
	maps.WaitForCacheSync(ctx.Done())
	go func() { <-ctx.Done(); w.queue.ShutDown() }()
	for {
		name, isOver := w.queue.Get()
		if isOver {
			return
		}
		if err := w.reconcile(ctx, name); err != nil {
			// The cache was behind; it will have caught up.
			w.queue.AddRateLimited(name)
		} else {
			w.queue.Forget(name)
		}
		w.queue.Done(name)
	}
}

func (w worker) reconcile(ctx context.Context, name cache.ObjectName) error {
	cached, err := w.boats.ByNamespace(name.Namespace).Get(name.Name)
	if errors.IsNotFound(err) {
		return nil
	}
	boat := cached.(*unstructured.Unstructured).DeepCopy()
	boats := w.dynamic.Resource(boatsResource).Namespace(name.Namespace)
	has := len(boat.GetFinalizers()) > 0
	switch leaves := boat.GetDeletionTimestamp() != nil; {
	case leaves && !has:
		return nil
	case leaves:
		// By hand, and not left to the garbage collector: that takes half a minute to discover a new kind.
		err = w.typed.CoreV1().ConfigMaps(namespace).Delete(ctx, name.Name, metav1.DeleteOptions{})
		if err != nil && !errors.IsNotFound(err) {
			return err
		}
		w.events.Event(boat, corev1.EventTypeNormal, "Left", "The boat leaves")
		boat.SetFinalizers(nil)
		_, err = boats.Update(ctx, boat, metav1.UpdateOptions{FieldManager: manager})
		return err
	case !has:
		boat.SetFinalizers([]string{finalizer})
		_, err = boats.Update(ctx, boat, metav1.UpdateOptions{FieldManager: manager})
		return err
	}
	return w.moor(ctx, boat)
}

// moor writes what is not as it should be.
func (w worker) moor(ctx context.Context, boat *unstructured.Unstructured) error {
	length, _, _ := unstructured.NestedInt64(boat.Object, "spec", "length")
	data := map[string]string{"length": fmt.Sprint(length)}
	current, err := w.maps.ConfigMaps(namespace).Get(boat.GetName())
	if err != nil || current.Data["length"] != data["length"] {
		owner := applymeta.OwnerReference().WithAPIVersion(boat.GetAPIVersion()).WithKind(boat.GetKind()).
			WithName(boat.GetName()).WithUID(boat.GetUID()).WithController(true).WithBlockOwnerDeletion(true)
		wanted := core.ConfigMap(boat.GetName(), namespace).WithOwnerReferences(owner).WithData(data)
		_, err = w.typed.CoreV1().ConfigMaps(namespace).Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: true})
		if err != nil {
			return err
		}
	}
	if observed, _, _ := unstructured.NestedInt64(boat.Object, "status", "observedGeneration"); observed == boat.GetGeneration() {
		return nil
	}
	status := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": boat.GetAPIVersion(), "kind": boat.GetKind(), "metadata": map[string]any{"name": boat.GetName()},
		"status": map[string]any{"moored": true, "observedGeneration": boat.GetGeneration()},
	}}
	_, err = w.dynamic.Resource(boatsResource).Namespace(namespace).
		ApplyStatus(ctx, boat.GetName(), status, metav1.ApplyOptions{FieldManager: manager})
	if err == nil && boat.GetGeneration() == 1 {
		w.events.Event(boat, corev1.EventTypeNormal, "Moored", "The boat is moored")
	}
	return err
}

func nameOf(object any) (cache.ObjectName, bool) {
	name, err := cache.DeletionHandlingObjectToName(object)
	return name, err == nil
}

func ownerOf(object any) (cache.ObjectName, bool) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	owned, ok := object.(*corev1.ConfigMap)
	if !ok {
		return cache.ObjectName{}, false
	}
	owner := metav1.GetControllerOf(owned)
	if owner == nil || owner.Kind != "Boat" {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(owned.Namespace, owner.Name), true
}
