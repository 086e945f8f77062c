package main

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const namespace = "boatman"

var (
	boatsResource       = schema.GroupVersionResource{Group: "boatman.example.com", Version: "v1", Resource: "boats"}
	definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// definition has what a definition of ours has: a schema with limits, a rule, a status of its own, columns.
var definition = &unstructured.Unstructured{Object: map[string]any{
	"apiVersion": "apiextensions.k8s.io/v1",
	"kind":       "CustomResourceDefinition",
	"metadata":   map[string]any{"name": "boats.boatman.example.com"},
	"spec": map[string]any{
		"group": boatsResource.Group,
		"scope": "Namespaced",
		"names": map[string]any{"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"subresources": map[string]any{"status": map[string]any{}},
			"additionalPrinterColumns": []any{
				map[string]any{"name": "Length", "type": "integer", "jsonPath": ".spec.length"},
			},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object",
				"properties": map[string]any{
					"spec": map[string]any{
						"type": "object", "required": []any{"length"},
						"properties": map[string]any{
							"length": map[string]any{"type": "integer", "minimum": int64(1)},
							"colour": map[string]any{"type": "string", "default": "white", "maxLength": int64(20)},
						},
						"x-kubernetes-validations": []any{
							map[string]any{"rule": "self.length < 400", "message": "no such boat was ever built"},
						},
					},
					"status": map[string]any{
						"type": "object",
						"properties": map[string]any{
							"moored":             map[string]any{"type": "boolean"},
							"observedGeneration": map[string]any{"type": "integer"},
						},
					},
				},
			}},
		}},
	},
}}

func boat(name string, length int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": boatsResource.GroupVersion().String(),
		"kind":       "Boat",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"length": length},
	}}
}
