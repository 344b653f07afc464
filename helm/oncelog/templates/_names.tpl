{{/*
Names and labels.
Rule 1: labels of selectors never change in the life of a release: name, instance, component.
Rule 2: the longest name made from the full name is a DNS label (63), and a StatefulSet's leaves room for the hash that
        Kubernetes appends (52): the full name has at most 35 characters.
*/}}

{{- define "oncelog.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 35 | trimSuffix "-" -}}
{{- end -}}

{{- define "oncelog.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "oncelog.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 35 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* dict root, component */}}
{{- define "oncelog.componentName" -}}
{{- printf "%s-%s" (include "oncelog.fullname" .root) .component -}}
{{- end -}}

{{/* The full DNS name of a service. dict root, name */}}
{{- define "oncelog.host" -}}
{{- printf "%s.%s.svc.%s" .name .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{/* dict root, component */}}
{{- define "oncelog.selectorLabels" -}}
app.kubernetes.io/name: {{ include "oncelog.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of an object, never of a volume claim. dict root, component */}}
{{- define "oncelog.labels" -}}
{{ include "oncelog.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- if not (hasKey .root.Values.commonLabels "app.kubernetes.io/part-of") }}
app.kubernetes.io/part-of: oncelog
{{- end }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object. dict root, component, name; annotations and labels (optional) beside the common ones */}}
{{- define "oncelog.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "oncelog.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* dict root, component, config */}}
{{- define "oncelog.serviceAccountName" -}}
{{- if .config.serviceAccount.create -}}
{{- .config.serviceAccount.name | default (include "oncelog.componentName" .) -}}
{{- else -}}
{{- .config.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* registry/repository:tag or @digest. dict root, image */}}
{{- define "oncelog.image" -}}
{{- $registry := .root.Values.global.imageRegistry | default .image.registry -}}
{{- $path := ternary .image.repository (printf "%s/%s" $registry .image.repository) (empty $registry) -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $path .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $path (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/*
Where services find etcd: host:port,... A single member is found by its service, whose address stays. Several are named
each, so that one that is cut off spoils only some calls.
*/}}
{{- define "oncelog.etcdEndpoints" -}}
{{- if .Values.etcd.enabled -}}
{{- $name := include "oncelog.componentName" (dict "root" . "component" "etcd") -}}
{{- $endpoints := list -}}
{{- if eq (int .Values.etcd.replicaCount) 1 -}}
{{- $endpoints = append $endpoints (printf "%s:2379" (include "oncelog.host" (dict "root" . "name" $name))) -}}
{{- else -}}
{{- range until (int .Values.etcd.replicaCount) -}}
{{- $pod := printf "%s-%d.%s-headless" $name . $name -}}
{{- $endpoints = append $endpoints (printf "%s:2379" (include "oncelog.host" (dict "root" $ "name" $pod))) -}}
{{- end -}}
{{- end -}}
{{- join "," $endpoints -}}
{{- else -}}
{{- join "," .Values.externalEtcd.endpoints -}}
{{- end -}}
{{- end -}}

{{/* Where clients in the cluster begin. */}}
{{- define "oncelog.bootstrap" -}}
{{- printf "%s:%v" (include "oncelog.host" (dict "root" . "name" (include "oncelog.fullname" .))) .Values.listeners.client.port -}}
{{- end -}}

{{- define "oncelog.otlpEndpoint" -}}
{{- if .Values.tracing.otlpEndpoint -}}
{{- .Values.tracing.otlpEndpoint -}}
{{- else if .Values.jaeger.enabled -}}
{{- $name := include "oncelog.componentName" (dict "root" . "component" "jaeger") -}}
{{- printf "http://%s:4317" (include "oncelog.host" (dict "root" . "name" $name)) -}}
{{- end -}}
{{- end -}}
