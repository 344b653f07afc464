{{/*
Objects that every component has in the same shape. Each takes the scope of _config.tpl.
*/}}

{{/* A StatefulSet of one of our services. */}}
{{- define "oncelog.statefulSet" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "oncelog.metadata" . | nindent 2 }}
spec:
  replicas: {{ .config.replicaCount }}
  serviceName: {{ .name }}-headless
  podManagementPolicy: {{ .config.podManagementPolicy }}
  updateStrategy:
    {{- toYaml .config.updateStrategy | nindent 4 }}
  {{- with .config.minReadySeconds }}
  minReadySeconds: {{ . }}
  {{- end }}
  {{- if .claims }}
  persistentVolumeClaimRetentionPolicy:
    {{- toYaml .config.persistentVolumeClaimRetentionPolicy | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "oncelog.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      {{- include "oncelog.podMetadata" . | nindent 6 }}
    spec:
      {{- .podSpec | nindent 6 }}
  {{- if .claims }}
  volumeClaimTemplates:
    {{- include "oncelog.volumeClaim" . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Names for each pod of a StatefulSet, before it is ready too: peers must find each other to become ready. */}}
{{- define "oncelog.headlessService" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "oncelog.metadata" (merge (dict "name" (printf "%s-headless" .name) "annotations" .config.headlessService.annotations) .) | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "oncelog.selectorLabels" . | nindent 4 }}
  ports:
    {{- range .ports }}
    - name: {{ .name }}
      port: {{ .port }}
      targetPort: {{ .name }}
      {{- with .appProtocol }}
      appProtocol: {{ . }}
      {{- end }}
    {{- end }}
{{- end -}}

{{- define "oncelog.podDisruptionBudget" -}}
{{- if .config.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "oncelog.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .config.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "oncelog.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "oncelog.serviceAccount" -}}
{{- if .config.serviceAccount.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "oncelog.metadata" (merge (dict "name" (include "oncelog.serviceAccountName" .) "annotations" .config.serviceAccount.annotations) .) | nindent 2 }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}
