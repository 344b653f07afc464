{{/*
Pods that do one thing and end, as clients of the cluster.
They run as the brokers' service account: a hook before an upgrade has only what the last release made. With `auth.kubernetes`
they have one of their own, for there an account is a principal, and theirs may do everything.
*/}}

{{/* A pod's spec. dict root, component, containers (list of dicts name, command), scripts (bool); if there are more: env, volumes,
mounts (lists) */}}
{{- define "oncelog.jobPodSpec" -}}
{{- $values := .root.Values -}}
{{- $containers := list -}}
{{- $mounts := list (dict "name" "tmp" "mountPath" "/tmp") -}}
{{- $volumes := list (dict "name" "tmp" "emptyDir" dict) -}}
{{- if .scripts -}}
{{- $mounts = append $mounts (dict "name" "scripts" "mountPath" "/scripts" "readOnly" true) -}}
{{- $volumes = append $volumes (dict "name" "scripts" "configMap" (dict "name" (printf "%s-scripts" (include "oncelog.fullname" .root)))) -}}
{{- end -}}
{{- $files := include "oncelog.jobFiles" .root | fromYaml -}}
{{- $mounts = concat $mounts $files.mounts (.mounts | default list) -}}
{{- $volumes = concat $volumes $files.volumes (.volumes | default list) -}}
{{- range .containers -}}
{{- $container := dict "name" .name "command" .command "env" (concat (include "oncelog.clientEnv" $.root | fromYamlArray) ($.env | default list) $.config.extraEnv) "resources" $.config.resources "securityContext" $.config.containerSecurityContext "volumeMounts" (concat $mounts $.config.extraVolumeMounts) -}}
{{- with $.config.extraEnvFrom }}{{ $_ := set $container "envFrom" . }}{{ end -}}
{{- $containers = append $containers (merge $container (include "oncelog.ownImage" $ | fromYaml)) -}}
{{- end -}}
{{ include "oncelog.podPlacement" . | trim }}
restartPolicy: {{ .restartPolicy | default "Never" }}
{{- with initial $containers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  {{- toYaml (list (last $containers)) | nindent 2 }}
volumes:
  {{- toYaml (concat $volumes .config.extraVolumes) | nindent 2 }}
{{- end -}}

{{/* The scope of a job: as of a component, with another label. dict root, component */}}
{{- define "oncelog.fillJobScope" -}}
{{- $component := .component -}}
{{- $_ := set . "key" "jobs" -}}
{{- include "oncelog.fillScope" . -}}
{{- $_ := set . "component" $component -}}
{{- $_ := set . "name" (include "oncelog.componentName" .) -}}
{{- $brokers := dict "root" .root "key" "partitionLeader" -}}
{{- include "oncelog.fillScope" $brokers -}}
{{- $_ := set . "serviceAccountName" (ternary (include "oncelog.jobAccount" .root) (include "oncelog.serviceAccountName" $brokers) .root.Values.auth.kubernetes.enabled) -}}
{{- end -}}
