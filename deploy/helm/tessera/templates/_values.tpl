{{/* What the values change, as patches of the objects that `files/` holds. The template `objects.yaml` applies them. */}}
{{- define "tessera.values" -}}
{{- $v := .Values -}}
{{- $env := include "tessera.env" . | fromYamlArray -}}

{{- /* Scheduler and kube-scheduler: one pod. */ -}}
{{- $own := list -}}
{{- if not $v.webhook.takeDefault -}}{{- $own = append $own (dict "name" "TESSERA_WEBHOOK_TAKE_DEFAULT" "value" "false") -}}{{- end -}}
{{- with $v.webhook.namespaceSelector -}}{{- $own = append $own (dict "name" "TESSERA_WEBHOOK_REGISTRATION_NAMESPACE_SELECTOR" "value" (toJson .)) -}}{{- end -}}
{{- with $v.webhook.objectSelector -}}{{- $own = append $own (dict "name" "TESSERA_WEBHOOK_REGISTRATION_OBJECT_SELECTOR" "value" (toJson .)) -}}{{- end -}}
{{- with $v.webhook.leftOutNamespaces -}}{{- $own = append $own (dict "name" "TESSERA_WEBHOOK_REGISTRATION_LEFT_OUT" "value" (join "," .)) -}}{{- end }}
apiVersion: apps/v1
kind: Deployment
metadata: {name: tessera-scheduler, namespace: tessera-system}
spec:
{{- if not (kindIs "invalid" $v.scheduler.replicas) }}
  replicas: {{ $v.scheduler.replicas }}
{{- end }}
{{- with $v.scheduler.updateStrategy }}
  strategy: {{ toJson (set (deepCopy .) "$patch" "replace") }}
{{- end }}
  template:
{{ include "tessera.pod" (dict "pod" $v.scheduler "pullSecrets" $v.images.pullSecrets "tolerations" $v.all.tolerations) | indent 4 }}
      initContainers:
        - {{ include "tessera.container" (dict "service" $v.scheduler "name" "scheduler" "of" . "env" (concat $env $own)) | nindent 10 | trim }}
{{- if not $v.components.ha }}
        - {{ include "tessera.container" (dict "service" (dict "image" $v.scheduler.image "env" list) "name" "until-it-leads" "of" .) | nindent 10 | trim }}
{{- end }}
{{- if $v.kubeScheduler.enabled }}
        - {{ include "tessera.container" (dict "service" (dict "image" $v.kubeScheduler.image "env" list) "name" "image-of-kube-scheduler" "of" .) | nindent 10 | trim }}
{{- else }}
        - {name: image-of-kube-scheduler, $patch: delete}
{{- end }}
      containers:
{{- if $v.kubeScheduler.enabled }}
        - {{ include "tessera.container" (dict "service" $v.kubeScheduler "name" "kube-scheduler" "of" .) | nindent 10 | trim }}
{{- else }}
        - {name: kube-scheduler, $patch: delete}
{{- end }}
{{- with $v.scheduler.extraContainers }}
{{ toYaml . | indent 8 }}
{{- end }}

{{- $deployments := list "quota" "rebalancer" -}}
{{- if $v.components.console -}}{{- $deployments = append $deployments "console" -}}{{- end }}
{{- range $deployments }}
---
{{ include "tessera.deployment" (dict "name" . "of" $) }}
{{- end }}

{{- /* Agents: what all have, then what one vendor has. */ -}}
{{- range $vendor, $own := $v.vendors }}
---
{{- if $own.enabled }}
{{ include "tessera.agent" (dict "vendor" $vendor "service" $v.agents "hooked" (has $vendor ($.Files.Get "files/hooked.yaml" | fromYamlArray)) "pullSecrets" $v.images.pullSecrets "env" $env "of" $) }}
---
{{ include "tessera.agent" (dict "vendor" $vendor "service" $own "pullSecrets" list "env" list "of" $) }}
{{- else }}
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tessera-agent-{{ $vendor }}, namespace: tessera-system}
$patch: delete
{{- end }}
{{- end }}

{{- /* containerd's drop-in: the agents' image, and the way. */ -}}
{{- if $v.components.containerd }}
{{- $mode := list (dict "name" "TESSERA_MODE" "value" $v.containerd.mode) }}
{{- $service := merge (dict "image" $v.agents.image) $v.containerd }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tessera-containerd, namespace: tessera-system}
spec:
{{- with $v.containerd.updateStrategy }}
  updateStrategy: {{ toJson (set (deepCopy .) "$patch" "replace") }}
{{- end }}
  template:
{{ include "tessera.pod" (dict "pod" $v.containerd "pullSecrets" (default $v.images.pullSecrets $v.agents.imagePullSecrets) "tolerations" list) | indent 4 }}
      containers:
        - {{ include "tessera.container" (dict "service" $service "name" "containerd" "of" $ "env" (concat $env $mode)) | nindent 10 | trim }}
{{- end }}

{{- /* NATS: one server, and the three of ha. */ -}}
{{- range list "tessera-nats" "tessera-nats-cluster" }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ . }}, namespace: tessera-system}
spec:
{{- with $v.nats.updateStrategy }}
  updateStrategy: {{ toJson (set (deepCopy .) "$patch" "replace") }}
{{- end }}
  template:
{{ include "tessera.pod" (dict "pod" $v.nats "pullSecrets" $v.images.pullSecrets "tolerations" $v.all.tolerations) | indent 4 }}
      containers:
        - {{ include "tessera.container" (dict "service" $v.nats "name" "nats" "of" $) | nindent 10 | trim }}
{{- end }}

{{- /* Components that have values of their own. */ -}}
{{- if $v.components.otel }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: tessera-otel, namespace: tessera-system}
data: {{ toJson $v.otel.env }}
{{- end }}
{{- if and (index $v.components "cert-manager") $v.certificates.issuerRef }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: tessera-webhook, namespace: tessera-system}
spec: {issuerRef: {{ toJson $v.certificates.issuerRef }}}
{{- end }}
{{- end -}}
