// Boatman is a controller written with client-go, and the scenario that it runs through. It runs unchanged on our API
// server and on the real one, and must print the same on both: `cargo xtask test --only kubernetes`.
//
// What it uses is what controllers use: shared informers, typed and dynamic, a work queue, leader election with a
// Lease, a finalizer, server-side apply with typed and untyped objects, a status, an owned object, Events.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	core "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// waitTimeout is never reached unless something is wrong.
const waitTimeout = 60 * time.Second

type scenario struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path to the kubeconfig file")
	language := flag.String("language", "json", "json; or protobuf, which the controllers of Kubernetes speak where there is a choice")
	flag.Parse()
	// What is expected to fail on the way, such as an update that came too late, is not part of the scenario.
	klog.SetOutput(os.Stderr)
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must("read the kubeconfig", err)
	// What the scenario itself writes is owned under this name, which is not the controller's.
	config.UserAgent = "scenario/1.0"
	// The limits of client-go would make most of this waiting.
	config.QPS, config.Burst = 500, 500
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	s := scenario{typed: kubernetes.NewForConfigOrDie(typedConfig(config, *language)), dynamic: dynamic.NewForConfigOrDie(config)}
	s.prepare(ctx)
	s.run(ctx)
	s.cleanUp(ctx)
}

func typedConfig(config *rest.Config, language string) *rest.Config {
	typed := rest.CopyConfig(config)
	if language == "protobuf" {
		typed.ContentType = "application/vnd.kubernetes.protobuf"
		typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	return typed
}

func (s scenario) prepare(ctx context.Context) {
	definitions := s.dynamic.Resource(definitionsResource)
	_, err := definitions.Apply(ctx, definition.GetName(), definition, metav1.ApplyOptions{FieldManager: manager})
	must("apply the definition", err)
	s.eventually(ctx, "the definition is established", func() bool {
		found, err := definitions.Get(ctx, definition.GetName(), metav1.GetOptions{})
		must("get the definition", err)
		return condition(found, "Established") == "True"
	})
	fmt.Println("definition: Established")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err = s.typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	must("create the namespace", err)
}

// run is everything that happens, in order. Each line is printed when it is true.
func (s scenario) run(ctx context.Context) {
	boats := s.dynamic.Resource(boatsResource).Namespace(namespace)
	maps := s.typed.CoreV1().ConfigMaps(namespace)

	first, second := s.candidate(ctx, "first"), s.candidate(ctx, "second")
	first.start()
	s.eventually(ctx, "the first leads", first.leads)
	second.start()
	fmt.Println("leader:", s.holder(ctx))

	_, err := boats.Create(ctx, boat("b", 12), metav1.CreateOptions{})
	must("create the boat", err)
	s.eventually(ctx, "the boat is moored", func() bool { return s.isMoored(ctx, "b") })
	s.show(ctx, "created")

	_, err = boats.Patch(ctx, "b", types.MergePatchType, []byte(`{"spec":{"length":13}}`), metav1.PatchOptions{})
	must("make the boat longer", err)
	s.eventually(ctx, "the map says so", func() bool { return s.mapped(ctx) == "13" })
	s.eventually(ctx, "the status says so", func() bool { return s.observed(ctx, "b") == 2 })
	s.show(ctx, "longer")

	// What the controller owns is not for others, unless they insist; and then it takes it back.
	ours := core.ConfigMap("b", namespace).WithData(map[string]string{"length": "99"})
	_, err = maps.Apply(ctx, ours, metav1.ApplyOptions{FieldManager: "passenger"})
	fmt.Println("passenger:", reason(err), firstLine(err))
	_, err = maps.Apply(ctx, ours, metav1.ApplyOptions{FieldManager: "passenger", Force: true})
	must("insist", err)
	s.eventually(ctx, "the controller takes it back", func() bool { return s.mapped(ctx) == "13" })
	must("delete the map", maps.Delete(ctx, "b", metav1.DeleteOptions{}))
	s.eventually(ctx, "the map is made again", func() bool { return s.mapped(ctx) == "13" })
	s.show(ctx, "restored")

	_, err = boats.Create(ctx, boat("too-long", 1000), metav1.CreateOptions{})
	fmt.Println("too long:", reason(err), firstLine(err))
	stale, err := boats.Get(ctx, "b", metav1.GetOptions{})
	must("get the boat", err)
	_, err = boats.Patch(ctx, "b", types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
	must("label the boat", err)
	_, err = boats.Update(ctx, stale, metav1.UpdateOptions{})
	fmt.Println("too late:", reason(err))

	first.stop()
	s.eventually(ctx, "the second leads", second.leads)
	fmt.Println("leader:", s.holder(ctx))
	s.createOwned(ctx, "rope")
	must("delete the boat", boats.Delete(ctx, "b", metav1.DeleteOptions{}))
	s.eventually(ctx, "the boat is gone", func() bool {
		_, err := boats.Get(ctx, "b", metav1.GetOptions{})
		return errors.IsNotFound(err)
	})
	_, err = maps.Get(ctx, "b", metav1.GetOptions{})
	fmt.Println("deleted: the map is", reason(err))
	s.eventually(ctx, "the rope is collected", func() bool {
		_, err := maps.Get(ctx, "rope", metav1.GetOptions{})
		return errors.IsNotFound(err)
	})
	fmt.Println("deleted: the rope is collected")
	s.events(ctx)
	second.stop()
}

func (s scenario) cleanUp(ctx context.Context) {
	namespaces, definitions := s.typed.CoreV1().Namespaces(), s.dynamic.Resource(definitionsResource)
	must("delete the namespace", namespaces.Delete(ctx, namespace, metav1.DeleteOptions{}))
	must("delete the definition", definitions.Delete(ctx, definition.GetName(), metav1.DeleteOptions{}))
	s.eventually(ctx, "both are gone", func() bool {
		_, space := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		_, kind := definitions.Get(ctx, definition.GetName(), metav1.GetOptions{})
		return errors.IsNotFound(space) && errors.IsNotFound(kind)
	})
	fmt.Println("end: namespace and definition are gone")
}

// createOwned makes an object that the map owns: when the controller deletes the map, the garbage collector has it.
func (s scenario) createOwned(ctx context.Context, name string) {
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	owner, err := maps.Get(ctx, "b", metav1.GetOptions{})
	must("get the map", err)
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}
	_, err = maps.Create(ctx, owned, metav1.CreateOptions{})
	must("create the rope", err)
}

// show prints the boat and what it owns, without what is different in each run.
func (s scenario) show(ctx context.Context, when string) {
	found, err := s.dynamic.Resource(boatsResource).Namespace(namespace).Get(ctx, "b", metav1.GetOptions{})
	must("get the boat", err)
	fmt.Printf("%s: boat %v %v generation %d finalizers %v\n", when, found.Object["spec"], found.Object["status"],
		found.GetGeneration(), found.GetFinalizers())
	fmt.Printf("%s: boat is managed by %s\n", when, managers(found.GetManagedFields(), found.GetUID()))
	owned, err := s.typed.CoreV1().ConfigMaps(namespace).Get(ctx, "b", metav1.GetOptions{})
	must("get the map", err)
	for _, owner := range owned.OwnerReferences {
		fmt.Printf("%s: map %v of %s %s %s, its controller: %t, the same object: %t\n", when, owned.Data, owner.APIVersion,
			owner.Kind, owner.Name, *owner.Controller, owner.UID == found.GetUID())
	}
	fmt.Printf("%s: map is managed by %s\n", when, managers(owned.ManagedFields, found.GetUID()))
}

func (s scenario) events(ctx context.Context) {
	var seen []string
	s.eventually(ctx, "both events are there", func() bool {
		list, err := s.typed.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Boat"})
		must("list events", err)
		seen = nil
		for _, event := range list.Items {
			seen = append(seen, fmt.Sprintf("%s %s %s by %s", event.Type, event.Reason, event.InvolvedObject.Name,
				event.Source.Component))
		}
		return len(seen) == 2
	})
	sort.Strings(seen)
	fmt.Println("events:", strings.Join(seen, "; "))
}

func (s scenario) holder(ctx context.Context) string {
	lease, err := s.typed.CoordinationV1().Leases(namespace).Get(ctx, manager, metav1.GetOptions{})
	must("get the lease", err)
	return fmt.Sprintf("%s, after %d changes", *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions)
}

func (s scenario) isMoored(ctx context.Context, name string) bool {
	found, err := s.dynamic.Resource(boatsResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	must("get the boat", err)
	moored, _, _ := unstructured.NestedBool(found.Object, "status", "moored")
	return moored
}

func (s scenario) observed(ctx context.Context, name string) int64 {
	found, err := s.dynamic.Resource(boatsResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	must("get the boat", err)
	generation, _, _ := unstructured.NestedInt64(found.Object, "status", "observedGeneration")
	return generation
}

// mapped is the length that the map has, or nothing.
func (s scenario) mapped(ctx context.Context) string {
	found, err := s.typed.CoreV1().ConfigMaps(namespace).Get(ctx, "b", metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return ""
	}
	must("get the map", err)
	return found.Data["length"]
}

func (s scenario) eventually(ctx context.Context, what string, holds func() bool) {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) {
		return holds(), nil
	})
	must("see that "+what, err)
}

func condition(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if fields, ok := entry.(map[string]any); ok && fields["type"] == kind {
			return fmt.Sprint(fields["status"])
		}
	}
	return ""
}

// managers shows who manages what and how, in an order that does not depend on the time.
func managers(entries []metav1.ManagedFieldsEntry, owner types.UID) string {
	var all []string
	for _, entry := range entries {
		fields := strings.ReplaceAll(entry.FieldsV1.GetRawString(), string(owner), "UID")
		all = append(all, fmt.Sprintf("%s %s %q %s", entry.Manager, entry.Operation, entry.Subresource, fields))
	}
	sort.Strings(all)
	return strings.Join(all, "; ")
}

func reason(err error) string {
	return string(errors.ReasonForError(err))
}

func firstLine(err error) string {
	if err == nil {
		return "was not refused"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func must(do string, err error) {
	if err != nil {
		fmt.Printf("cannot %s: %v\n", do, err)
		os.Exit(1)
	}
}
