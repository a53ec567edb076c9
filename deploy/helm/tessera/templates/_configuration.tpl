{{/*
kube-scheduler's configuration with what the values say: the calls it may make, resource names of dialects that
have names of their own, resources and profiles of those that are off, and anything else. The text stays as it is where nothing changes.
*/}}
{{- define "tessera.kube-scheduler-config" -}}
  {{- $was := fromYaml .text -}}
  {{- $config := deepCopy $was -}}
  {{- $v := .of.Values -}}
  {{- $_ := set $config "clientConnection" (mustMergeOverwrite $config.clientConnection $v.kubeScheduler.clientConnection) -}}
  {{- $named := dict -}}
  {{- range $dialect, $options := $v.dialects -}}{{- if $options -}}{{- $_ := set $named $dialect true -}}{{- end -}}{{- end -}}
  {{- if and $named (not $v.kubeScheduler.config.extenders) -}}
    {{- $managed := list -}}
    {{- range include "tessera.resource-names" .of | fromJsonArray -}}
      {{- $managed = append $managed (dict "name" . "ignoredByScheduler" true) -}}
    {{- end -}}
    {{- range $config.extenders -}}{{- $_ := set . "managedResources" $managed -}}{{- end -}}
  {{- end -}}
  {{- $profiles := list (first $config.profiles) -}}
  {{- range $name := include "tessera.profile-names" .of | fromJsonArray -}}
    {{- range $config.profiles -}}{{- if eq .schedulerName $name -}}{{- $profiles = append $profiles . -}}{{- end -}}{{- end -}}
  {{- end -}}
  {{- $_ := set $config "profiles" $profiles -}}
  {{- $config = mustMergeOverwrite $config (deepCopy $v.kubeScheduler.config) -}}
  {{- if eq (toJson $config) (toJson $was) -}}{{ .text }}{{- else -}}{{ toYaml $config }}{{- end -}}
{{- end -}}

{{/* Whether pods may use a dialect: `options` are its values, `has` what `files/dialects.yaml` has of it. */}}
{{- define "tessera.is-on" -}}
  {{- if and (ne (toString (get .options "enabled")) "false") (or .options (not .has.optional)) -}}on{{- end -}}
{{- end -}}

{{/*
The extended resources of the dialects that are not switched off, as JSON. `files/dialects.yaml` has, for each dialect, the options
that name a resource, and the resources that no option names.
*/}}
{{- define "tessera.resource-names" -}}
  {{- $names := dict -}}
  {{- range $dialect, $has := .Files.Get "files/dialects.yaml" | fromYaml -}}
    {{- $options := get $.Values.dialects $dialect | default dict -}}
    {{- if include "tessera.is-on" (dict "options" $options "has" $has) -}}
      {{- range $has.fixed -}}{{- $_ := set $names . true -}}{{- end -}}
      {{- range $option, $name := $has.options -}}
        {{- $_ := set $names (hasKey $options $option | ternary (get $options $option) $name) true -}}
      {{- end -}}
      {{- range $option := $has.derived -}}
        {{- if hasKey $options $option -}}
          {{- fail (printf "dialects.%s.%s: the names that follow from it are made by deploy/kustomize/generate.py: set kubeScheduler.config.extenders from there" $dialect $option) -}}
        {{- end -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
  {{- $extended := list -}}
  {{- range keys $names | sortAlpha -}}
    {{- if and (contains "/" .) (not (contains "kubernetes.io/" .)) (not (hasPrefix "requests." .)) -}}
      {{- $extended = append $extended . -}}
    {{- end -}}
  {{- end -}}
  {{- toJson $extended -}}
{{- end -}}

{{/* The names of schedulers that dialects use which are not switched off, as JSON. */}}
{{- define "tessera.profile-names" -}}
  {{- $names := list -}}
  {{- range $dialect, $has := .Files.Get "files/dialects.yaml" | fromYaml -}}
    {{- $options := get $.Values.dialects $dialect | default dict -}}
    {{- if include "tessera.is-on" (dict "options" $options "has" $has) -}}{{- $names = concat $names $has.schedulers -}}{{- end -}}
  {{- end -}}
  {{- toJson (uniq $names) -}}
{{- end -}}

{{/* The file of dialects: the base's, with the options of the values. */}}
{{- define "tessera.dialects" -}}
  {{- $was := fromYaml .text -}}
  {{- $config := deepCopy $was -}}
  {{- range $dialect, $options := .of.Values.dialects -}}
    {{- if $options -}}{{- $_ := set $config $dialect (mustMergeOverwrite (dict "enabled" true) (deepCopy $options)) -}}{{- end -}}
  {{- end -}}
  {{- if eq (toJson $config) (toJson $was) -}}{{ .text }}{{- else -}}{{ toYaml $config }}{{- end -}}
{{- end -}}

{{/* What a patch cannot say: arguments that are added, configurations inside of ConfigMaps, all objects of a kind. */}}
{{- define "tessera.configure" -}}
  {{- $objects := .objects -}}
  {{- $of := .of -}}
  {{- $v := .of.Values -}}
  {{- range $object := $objects -}}
    {{- $name := $object.metadata.name -}}
    {{- if and (eq $object.kind "ConfigMap") (eq $name "tessera-kube-scheduler") -}}
      {{- $_ := set $object.data "kube-scheduler.yaml" (include "tessera.kube-scheduler-config" (dict "text" (get $object.data "kube-scheduler.yaml") "of" $of)) -}}
    {{- else if and (eq $object.kind "ConfigMap") (eq $name "tessera-dialects") -}}
      {{- $_ := set $object.data "dialects.yaml" (include "tessera.dialects" (dict "text" (get $object.data "dialects.yaml") "of" $of)) -}}
    {{- else if and (eq $object.kind "ConfigMap") (eq $name "tessera-node-settings") -}}
      {{- with $v.nodeSettings -}}{{- $_ := set $object.data "settings.yaml" (toYaml (dict "nodes" .)) -}}{{- end -}}
    {{- else if eq $object.kind "Deployment" "StatefulSet" -}}
      {{- range $object.spec.template.spec.containers -}}
        {{- if eq .name "kube-scheduler" -}}
          {{- $_ := set . "command" (concat (default list .command) $v.kubeScheduler.extraArgs) -}}
        {{- else if eq .name "nats" -}}
          {{- $_ := set . "args" (concat .args $v.nats.extraArgs) -}}
        {{- end -}}
      {{- end -}}
      {{- range $claim := $object.spec.volumeClaimTemplates -}}
        {{- with $v.nats.storage.size -}}{{- $_ := set $claim.spec.resources.requests "storage" . -}}{{- end -}}
        {{- with $v.nats.storage.className -}}{{- $_ := set $claim.spec "storageClassName" . -}}{{- end -}}
      {{- end -}}
    {{- else if eq $object.kind "PodMonitor" "PrometheusRule" -}}
      {{- $_ := set $object.metadata "labels" (mustMergeOverwrite $object.metadata.labels (deepCopy $v.prometheus.labels)) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}

{{/*
Pods are made anew when a ConfigMap changes that they have: kustomize gives it another name then; here their
annotation changes.
*/}}
{{- define "tessera.checksums" -}}
  {{- $objects := .objects -}}
  {{- range $object := $objects -}}
    {{- if eq $object.kind "Deployment" "StatefulSet" "DaemonSet" -}}
      {{- $text := "" -}}
      {{- range $object.spec.template.spec.volumes -}}
        {{- if .configMap -}}
          {{- $map := get $objects (printf "ConfigMap tessera-system/%s" .configMap.name) -}}
          {{- if $map -}}{{- $text = print $text (toJson $map.data) -}}{{- end -}}
        {{- end -}}
      {{- end -}}
      {{- $_ := set $object.spec.template.metadata.annotations "checksum/config" (sha256sum $text) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
