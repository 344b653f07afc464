{{/*
What holds for a component: podDefaults, and over them the component's own values. Sprig's mergeOverwrite does not do:
it takes `false`, 0 and "" for "not given".
*/}}

{{/* Changes `into`: maps are merged, all else is replaced. dict into, from */}}
{{- define "oncelog.mergeInto" -}}
{{- range $key, $value := .from -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $.into $key)) -}}
{{- include "oncelog.mergeInto" (dict "into" (get $.into $key) "from" $value) -}}
{{- else -}}
{{- $_ := set $.into $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The scope in which the templates of a component work: root, component (its label), key (in values), prefix (of its
variables), program, config (merged), name. Usage: include "oncelog.scope" (list $ "partition-leader" "partitionLeader") | fromYaml
cannot carry root, so callers set it: $scope := dict "root" $; include "oncelog.fillScope" $scope.
*/}}
{{- define "oncelog.fillScope" -}}
{{- $config := deepCopy .root.Values.podDefaults -}}
{{- include "oncelog.mergeInto" (dict "into" $config "from" (deepCopy (get .root.Values .key))) -}}
{{- $_ := set . "config" $config -}}
{{- $_ := set . "component" (kebabcase .key) -}}
{{- $_ := set . "name" (include "oncelog.componentName" .) -}}
{{- $_ := set . "prefix" (printf "ONCELOG_%s_" (snakecase .key | upper)) -}}
{{- end -}}

{{/* A number as it is meant: values arrive as floats, and large ones would be printed as 9e+05. */}}
{{- define "oncelog.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq (floor .) . }}{{ . | int64 }}{{ else }}{{ . }}{{ end -}}
{{- else if kindIs "slice" . -}}
{{- $parts := list -}}
{{- range . }}{{ $parts = append $parts (include "oncelog.text" .) }}{{ end -}}
{{- join "," $parts -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}
