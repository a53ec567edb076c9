{{/*
Patches as kustomize has them. `to` and `by` are maps, and `to` is changed:

- maps are merged, and null takes a field away;
- lists whose elements have names are merged by these: containers, env, volumes and what else stands in $ids;
- all other lists are replaced;
- `$patch: delete` takes an element away, `$patch: replace` replaces a map.

With `first` true, the elements that a patch names come first, as in kustomize. Otherwise elements keep their
places, and new ones come last.
*/}}
{{- define "tessera.merge" -}}
  {{- $ids := dict "containers" "name" "initContainers" "name" "env" "name" "volumes" "name" "volumeMounts" "mountPath" "variables" "name" -}}
  {{- $to := .to -}}
  {{- $first := default false .first -}}
  {{- range $key, $new := .by -}}
    {{- $old := get $to $key -}}
    {{- if kindIs "invalid" $new -}}
      {{- $_ := unset $to $key -}}
    {{- else if and (kindIs "map" $new) (eq (toString (get $new "$patch")) "replace") -}}
      {{- $_ := set $to $key (omit $new "$patch") -}}
    {{- else if and (kindIs "map" $new) (kindIs "map" $old) -}}
      {{- include "tessera.merge" (dict "to" $old "by" $new "first" $first) -}}
    {{- else if and (hasKey $ids $key) (kindIs "slice" $new) (kindIs "slice" $old) -}}
      {{- include "tessera.merge-lists" (dict "to" $to "key" $key "id" (get $ids $key) "by" $new "first" $first) -}}
    {{- else -}}
      {{- $_ := set $to $key $new -}}
    {{- end -}}
  {{- end -}}
{{- end -}}

{{/* The list at `key` of the map `to` is merged with the list `by`, by the field `id` of their elements. */}}
{{- define "tessera.merge-lists" -}}
  {{- $id := .id -}}
  {{- $first := default false .first -}}
  {{- $changes := dict -}}
  {{- $there := dict -}}
  {{- range .by -}}{{- $_ := set $changes (get . $id) . -}}{{- end -}}
  {{- range get .to .key -}}
    {{- $_ := set $there (get . $id) . -}}
    {{- if hasKey $changes (get . $id) -}}
      {{- include "tessera.merge" (dict "to" . "by" (omit (get $changes (get . $id)) "$patch") "first" $first) -}}
    {{- end -}}
  {{- end -}}
  {{- $named := list -}}
  {{- $added := list -}}
  {{- range .by -}}
    {{- if ne (toString (get . "$patch")) "delete" -}}
      {{- $named = append $named (hasKey $there (get . $id) | ternary (get $there (get . $id)) .) -}}
      {{- if not (hasKey $there (get . $id)) -}}{{- $added = append $added . -}}{{- end -}}
    {{- end -}}
  {{- end -}}
  {{- $kept := list -}}
  {{- range get .to .key -}}
    {{- $change := get $changes (get . $id) -}}
    {{- if not $change -}}
      {{- $kept = append $kept . -}}
    {{- else if and (not $first) (ne (toString (get $change "$patch")) "delete") -}}
      {{- $kept = append $kept . -}}
    {{- end -}}
  {{- end -}}
  {{- $_ := set .to .key (concat ($first | ternary $named list) $kept ($first | ternary list $added)) -}}
{{- end -}}

{{/*
The documents of the YAML `text` are put into the map `objects`: one that is there already is patched, with
`$patch: delete` taken away, and one that is not is added, unless `patch` is true. `of` says where they are from.
*/}}
{{- define "tessera.apply" -}}
  {{- $objects := .objects -}}
  {{- $patch := .patch -}}
  {{- $first := default false .first -}}
  {{- $of := .of -}}
  {{- range regexSplit "(?m)^---$" .text -1 -}}
    {{- $object := fromYaml . -}}
    {{- if hasKey $object "Error" -}}{{- fail (printf "%s: %s" $of $object.Error) -}}{{- end -}}
    {{- if $object.kind -}}
      {{- $id := include "tessera.id" $object -}}
      {{- if not (hasKey $objects $id) -}}
        {{- if $patch -}}{{- fail (printf "%s: there is no %s to patch; there are: %s" $of $id (keys $objects | sortAlpha | join ", ")) -}}{{- end -}}
        {{- $_ := set $objects $id $object -}}
      {{- else if eq (toString (get $object "$patch")) "delete" -}}
        {{- $_ := unset $objects $id -}}
      {{- else -}}
        {{- include "tessera.merge" (dict "to" (get $objects $id) "by" $object "first" $first) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}

{{/* What an object is known by: kind, namespace, name. */}}
{{- define "tessera.id" -}}
  {{- printf "%s %s/%s" .kind (default "" .metadata.namespace) .metadata.name -}}
{{- end -}}
