{{/* Values of services as patches: each is a part of an object, and what is not set is not in it. */}}

{{/* An image's reference. `image` is the value, `of` the chart's root. */}}
{{- define "tessera.image" -}}
  {{- $tag := default .of.Values.images.tag .image.tag -}}
  {{- if eq $tag "cluster" -}}{{- $tag = regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .of.Capabilities.KubeVersion.Version -}}{{- end -}}
  {{- default .of.Values.images.registry .image.registry }}/{{ .image.name }}
  {{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ $tag }}{{ end -}}
{{- end -}}

{{/* The fields of a container. `service` is the value, `name` the container's name, `of` the chart's root. */}}
{{- define "tessera.container" -}}
name: {{ .name }}
{{- with .service.image }}
image: {{ include "tessera.image" (dict "image" . "of" $.of) }}
{{- with default $.of.Values.images.pullPolicy .pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}
{{- with concat (.env | default list) .service.env }}
env:
{{ toYaml . }}
{{- end }}
{{- with .service.resources }}
resources:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{/* The fields of a workload's pods but its containers. `pod` is the value, `pullSecrets` stand in for its own. */}}
{{- define "tessera.pod" -}}
metadata:
  annotations: {{ toJson .pod.annotations }}
  labels: {{ toJson .pod.labels }}
spec:
{{- with default .pullSecrets .pod.imagePullSecrets }}
  imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .pod.nodeSelector }}
  nodeSelector: {{ toJson . }}
{{- end }}
{{- with default .tolerations .pod.tolerations }}
  tolerations: {{ toJson . }}
{{- end }}
{{- with .pod.affinity }}
  affinity: {{ toJson . }}
{{- end }}
{{- with .pod.priorityClassName }}
  priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Variables that all services have from the values. */}}
{{- define "tessera.env" -}}
{{- with .Values.all.logLevel }}
- {name: TESSERA_PROCESS_LOG_LEVEL, value: {{ . }}}
{{- end }}
{{- end -}}

{{/* Deployments whose one container is the service of the same name. */}}
{{- define "tessera.deployment" -}}
{{- $service := get .of.Values .name -}}
apiVersion: apps/v1
kind: Deployment
metadata: {name: tessera-{{ .name }}, namespace: tessera-system}
spec:
{{- with $service.updateStrategy }}
  strategy: {{ toJson (set (deepCopy .) "$patch" "replace") }}
{{- end }}
  template:
{{ include "tessera.pod" (dict "pod" $service "pullSecrets" .of.Values.images.pullSecrets "tolerations" .of.Values.all.tolerations) | indent 4 }}
      containers:
        - {{ include "tessera.container" (dict "service" $service "name" .name "of" .of "env" (include "tessera.env" .of | fromYamlArray)) | nindent 10 | trim }}
{{- end -}}

{{/* One vendor's agent. `service` is `agents` or what the vendor has over it. */}}
{{- define "tessera.agent" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tessera-agent-{{ .vendor }}, namespace: tessera-system}
spec:
{{- with .service.updateStrategy }}
  updateStrategy: {{ toJson (set (deepCopy .) "$patch" "replace") }}
{{- end }}
  template:
{{ include "tessera.pod" (dict "pod" .service "pullSecrets" .pullSecrets "tolerations" list) | indent 4 }}
      containers:
        - {{ include "tessera.container" (dict "service" .service "name" "agent" "of" .of "env" .env) | nindent 10 | trim }}
{{- if and .hooked .service.image }}
      initContainers:
        - {{ include "tessera.container" (dict "service" (dict "image" .service.image "env" list) "name" "hook" "of" .of) | nindent 10 | trim }}
{{- end }}
{{- end -}}
