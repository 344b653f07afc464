{{/*
What `auth` declares of users, roles and rules, as the JSON that files/scripts/keep_access.py reads; empty when there is nothing
to keep. Passwords are not in it: it names files, mounted from secrets, by the number of the user.
*/}}

{{- define "oncelog.declaredAccess" -}}
{{- $auth := .Values.auth -}}
{{- if or $auth.users $auth.roles $auth.acls $auth.removeUndeclared -}}
{{- $users := list -}}
{{- range $index, $user := $auth.users -}}
{{- $users = append $users (dict "name" $user.name "passwordFile" (printf "/etc/oncelog/users/%d" $index)) -}}
{{- end -}}
{{- toJson (dict "users" $users "roles" $auth.roles "acls" $auth.acls "removeUndeclared" $auth.removeUndeclared) -}}
{{- end -}}
{{- end -}}

{{/* The secrets of users in one folder: volumes and mounts, as a YAML map. */}}
{{- define "oncelog.userFiles" -}}
{{- $sources := list -}}
{{- range $index, $user := .Values.auth.users -}}
{{- $item := dict "key" ($user.key | default "password") "path" (toString $index) -}}
{{- $sources = append $sources (dict "secret" (dict "name" $user.existingSecret "items" (list $item))) -}}
{{- end -}}
{{- if $sources -}}
{{- toYaml (dict "volumes" (list (dict "name" "users" "projected" (dict "defaultMode" 288 "sources" $sources))) "mounts" (list (dict "name" "users" "mountPath" "/etc/oncelog/users" "readOnly" true))) -}}
{{- end -}}
{{- end -}}
