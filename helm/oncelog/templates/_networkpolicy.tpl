{{/*
Parts of network policies.
Rule 1: a policy looks at addresses and labels, never at names: what is outside of the release is bounded by its port.
*/}}

{{/* A selector of the release's pods, of some components if any are named. list root, component... */}}
{{- define "oncelog.podsOf" -}}
{{- $root := first . -}}
matchLabels:
  app.kubernetes.io/name: {{ include "oncelog.name" $root }}
  app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with rest . }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values:
      {{- toYaml . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* The same as a peer of a rule. */}}
{{- define "oncelog.peer" -}}
- podSelector:
    {{- include "oncelog.podsOf" . | nindent 4 }}
{{- end -}}

{{/* What a component may connect to. dict root, key */}}
{{- define "oncelog.egress" -}}
{{- $values := .root.Values -}}
{{- /* 5353: where pods of the cluster's DNS listen on an unprivileged port. */ -}}
- ports:
    {{- range $port := list 53 5353 }}
    {{- range list "UDP" "TCP" }}
    - port: {{ $port }}
      protocol: {{ . }}
    {{- end }}
    {{- end }}
- to:
    {{- include "oncelog.peer" (list .root) | nindent 4 }}
{{- $ports := list -}}
{{- if has .key (list "partitionLeader" "coordinator" "pidAllocator") -}}
{{- if not $values.etcd.enabled -}}
{{- range $values.externalEtcd.endpoints -}}
{{- $ports = append $ports (splitList ":" . | last | int) -}}
{{- end -}}
{{- end -}}
{{- if and $values.tracing.enabled $values.tracing.otlpEndpoint -}}
{{- $ports = append $ports (include "oncelog.urlPort" $values.tracing.otlpEndpoint | int) -}}
{{- end -}}
{{- end -}}
{{- if and (has .key (list "partitionLeader" "coordinator")) (eq $values.auth.authorization "acl") -}}
{{- with include "oncelog.issuer" .root | fromYaml -}}
{{- if .url -}}
{{- $ports = append $ports (include "oncelog.urlPort" .url | int) -}}
{{- end -}}
{{- if .ownBearer -}}
{{- range $values.networkPolicy.egress.apiServerPorts }}{{ $ports = append $ports (int .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $ports | uniq }}
- ports:
    {{- range . }}
    - port: {{ . }}
    {{- end }}
{{- end }}
{{- with $values.networkPolicy.egress.extra }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The port of a URL. */}}
{{- define "oncelog.urlPort" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $port | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end -}}
