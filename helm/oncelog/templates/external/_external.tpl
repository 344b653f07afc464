{{/*
Clients outside: each broker and coordinator has a service of its own and a file that says how it is reached.
The file is the pod's entry of a ConfigMap, found by the pod's name: a variable could not differ between pods.
*/}}

{{/* host:port of number .index of a component. dict root, key, name, index */}}
{{- define "oncelog.externalAddress" -}}
{{- $access := .root.Values.externalAccess -}}
{{- $own := get $access .key -}}
{{- $host := "" -}}
{{- if eq (len $own.advertisedHosts) 1 -}}
{{- $host = first $own.advertisedHosts -}}
{{- else if gt (len $own.advertisedHosts) .index -}}
{{- $host = index $own.advertisedHosts .index -}}
{{- else if $access.domain -}}
{{- $host = printf "%s-%d.%s" .name .index $access.domain -}}
{{- end -}}
{{- $port := .root.Values.listeners.external.port -}}
{{- if gt (len $own.advertisedPorts) .index -}}
{{- $port = index $own.advertisedPorts .index -}}
{{- else if and (eq $access.service.type "NodePort") $own.firstNodePort -}}
{{- $port = add $own.firstNodePort .index -}}
{{- end -}}
{{- printf "%s:%d" $host (int $port) -}}
{{- end -}}

{{/* A service for clients outside. dict root, access, nodePort, pod (empty: any), extra of the spec */}}
{{- define "oncelog.externalServiceSpec" -}}
{{- $access := .root.Values.externalAccess -}}
type: {{ $access.service.type }}
{{- if ne $access.service.type "ClusterIP" }}
externalTrafficPolicy: {{ $access.service.externalTrafficPolicy }}
{{- end }}
{{- if and (eq $access.service.type "LoadBalancer") $access.service.loadBalancerSourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml $access.service.loadBalancerSourceRanges | nindent 2 }}
{{- end }}
{{- with .loadBalancerIP }}
loadBalancerIP: {{ . }}
{{- end }}
{{- if .pod }}
publishNotReadyAddresses: true
{{- end }}
selector:
  {{- include "oncelog.selectorLabels" . | nindent 2 }}
  {{- with .pod }}
  statefulset.kubernetes.io/pod-name: {{ . }}
  {{- end }}
ports:
  - name: grpc-external
    port: {{ .root.Values.listeners.external.port }}
    targetPort: grpc-external
    {{- if and (eq $access.service.type "NodePort") .nodePort }}
    nodePort: {{ .nodePort }}
    {{- end }}
{{- end -}}

{{/* The ConfigMap of a component: a file for each pod. */}}
{{- define "oncelog.externalFiles" -}}
{{- range $index := until (int .config.replicaCount) }}
{{ $.name }}-{{ $index }}.toml: |
  external_address = {{ include "oncelog.externalAddress" (dict "root" $.root "key" $.key "name" $.name "index" $index) | quote }}
{{- end }}
{{- end -}}
