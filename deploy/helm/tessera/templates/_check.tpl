{{/* Values that cannot work together are refused, with what to write instead. */}}
{{- define "tessera.check" -}}
  {{- if ne .Release.Namespace "tessera-system" -}}
    {{- fail (printf "namespace %s: the policies, certificates and accounts are for tessera-system: write --namespace tessera-system" .Release.Namespace) -}}
  {{- end -}}
  {{- if and (index .Values.components "nats-tls") (not (index .Values.components "cert-manager")) -}}
    {{- fail "components.nats-tls: its certificates are made by cert-manager: set components.cert-manager=true too" -}}
  {{- end -}}
  {{- if and (not .Values.components.ha) (gt (int (default 1 .Values.scheduler.replicas)) 1) -}}
    {{- fail "scheduler.replicas: more than one works with components.ha=true only" -}}
  {{- end -}}
  {{- if and (not .Values.kubeScheduler.enabled) (not .Values.scheduler.extraContainers) -}}
    {{- fail "kubeScheduler.enabled=false: put your kube-scheduler into scheduler.extraContainers: the service answers containers of its own pod only" -}}
  {{- end -}}
{{- end -}}
