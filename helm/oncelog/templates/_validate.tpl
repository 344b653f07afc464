{{/*
What the schema cannot say: relations between values. Every problem is named at once, with what to do.
*/}}

{{- define "oncelog.validate" -}}
{{- $problems := list -}}
{{- $config := .Values.config -}}
{{- $brokers := int .Values.partitionLeader.replicaCount -}}
{{- if gt (int $config.minInsyncReplicas) (int $config.defaultReplicationFactor) -}}
{{- $problems = append $problems (printf "config.minInsyncReplicas (%v) is above config.defaultReplicationFactor (%v): no record could ever be acknowledged" $config.minInsyncReplicas $config.defaultReplicationFactor) -}}
{{- end -}}
{{- range $name := list "defaultReplicationFactor" "internalTopicReplicationFactor" -}}
{{- if gt (int (get $config $name)) $brokers -}}
{{- $problems = append $problems (printf "config.%s (%v) is above partitionLeader.replicaCount (%d): lower it, or add brokers" $name (get $config $name) $brokers) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.etcd.enabled .Values.externalEtcd.endpoints -}}
{{- $problems = append $problems "etcd.enabled and externalEtcd.endpoints are both set: set etcd.enabled=false to use the external one" -}}
{{- end -}}
{{- if not (or .Values.etcd.enabled .Values.externalEtcd.endpoints) -}}
{{- $problems = append $problems "etcd.enabled is false and externalEtcd.endpoints is empty: name an etcd (host:port)" -}}
{{- end -}}
{{- range $key := list "partitionLeader" "etcd" -}}
{{- $scope := dict "root" $ "key" $key -}}
{{- include "oncelog.fillScope" $scope -}}
{{- $budget := $scope.config.podDisruptionBudget -}}
{{- $replicas := int $scope.config.replicaCount -}}
{{- $spare := ternary (div (sub $replicas 1) 2) (sub (min $replicas (int $config.defaultReplicationFactor)) (int $config.minInsyncReplicas)) (eq $key "etcd") | int -}}
{{- if and $budget.enabled (gt $replicas 1) (gt (int $budget.maxUnavailable) (max 1 $spare | int)) -}}
{{- $problems = append $problems (printf "%s.podDisruptionBudget.maxUnavailable (%v) is more than the cluster can spare (%d)" $key $budget.maxUnavailable (max 1 $spare | int)) -}}
{{- end -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n\noncelog: these values do not fit together:\n  - %s\n" (join "\n  - " $problems)) -}}
{{- end -}}
{{- end -}}
