{{/* A name with a suffix in at most 63 letters; one that is cut has a hash, so that two long ones don't meet. */}}
{{- define "optimus.fit" -}}
{{- $name := index . 0 -}}
{{- $suffix := index . 1 -}}
{{- $room := int (sub 63 (len $suffix)) -}}
{{- if gt (len $name) $room -}}
{{- printf "%s-%s%s" ($name | trunc (int (sub $room 9)) | trimSuffix "-") ($name | sha256sum | trunc 8) $suffix -}}
{{- else -}}
{{- printf "%s%s" $name $suffix -}}
{{- end -}}
{{- end -}}

{{- define "optimus.name" -}}
{{- include "optimus.fit" (list (.Values.nameOverride | default .Chart.Name) "") -}}
{{- end -}}

{{- define "optimus.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- include "optimus.fit" (list .Values.fullnameOverride "") -}}
{{- else if contains (include "optimus.name" .) .Release.Name -}}
{{- include "optimus.fit" (list .Release.Name "") -}}
{{- else -}}
{{- include "optimus.fit" (list (printf "%s-%s" .Release.Name (include "optimus.name" .)) "") -}}
{{- end -}}
{{- end -}}

{{/* The full name with a suffix: (list . "-config") */}}
{{- define "optimus.named" -}}
{{- include "optimus.fit" (list (include "optimus.fullname" (index . 0)) (index . 1)) -}}
{{- end -}}

{{/* A name for an object of no namespace: two releases may have one name in two namespaces. */}}
{{- define "optimus.clusterNamed" -}}
{{- $root := index . 0 -}}
{{- include "optimus.fit" (list (printf "%s-%s" $root.Release.Namespace (include "optimus.fullname" $root)) (index . 1)) -}}
{{- end -}}

{{- define "optimus.selectorLabels" -}}
app.kubernetes.io/name: {{ include "optimus.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "optimus.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "optimus.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: optimus
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "optimus.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "optimus.fullname" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{/* The namespaces of jobs, as JSON. */}}
{{- define "optimus.namespaces" -}}
{{- .Values.namespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}

{{- define "optimus.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is empty. There is no public image: build one from your Airflow image with `pip install airflow-provider-optimus[postgres]`, and write image.repository and image.tag. (Or set migration.enabled and test.enabled to false.)" $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (required "image.tag and image.digest are empty. Write one of them: which release of your image runs is something to decide." $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "optimus.storeSecret" -}}
{{- .Values.store.existingSecret | default (include "optimus.named" (list . "-store")) -}}
{{- end -}}

{{- define "optimus.storeEnv" -}}
- name: AIRFLOW__OPTIMUS__DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "optimus.storeSecret" . }}
      key: {{ .Values.store.key }}
{{- end -}}

{{- define "optimus.claim" -}}
{{- .Values.checkpoints.existingClaim | default (include "optimus.named" (list . "-checkpoints")) -}}
{{- end -}}

{{- define "optimus.priorityClass" -}}
{{- .Values.priorityClass.name | default (include "optimus.clusterNamed" (list . "-jobs")) -}}
{{- end -}}

{{/* Which pods are replicas of jobs: those that Optimus itself takes for its own. */}}
{{- define "optimus.jobPods" -}}
matchLabels:
  app.kubernetes.io/managed-by: optimus
matchExpressions:
  - {key: optimus/job-name, operator: Exists}
{{- end -}}

{{/* What every pod of the chart has, its containers left out. */}}
{{- define "optimus.podSpec" -}}
restartPolicy: Never
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.pod.runAsUser }}
  runAsGroup: {{ .Values.pod.runAsGroup }}
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.pod.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pod.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "optimus.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* What no schema says well. */}}
{{- define "optimus.check" -}}
{{- $store := .Values.store -}}
{{- if and $store.existingSecret $store.url -}}
{{- fail "store.existingSecret and store.url are both given; there is one store. Leave one of them empty." -}}
{{- end -}}
{{- if not (or $store.existingSecret $store.url) -}}
{{- fail "store.existingSecret and store.url are empty. Make a secret that holds the PostgreSQL URL and name it in store.existingSecret, or write store.url such as postgresql://optimus:password@db/optimus." -}}
{{- end -}}
{{- if and $store.url (not (regexMatch "^postgresql(\\+[a-z0-9]+)?://[^[:space:]]+$" $store.url)) -}}
{{- fail "store.url names no PostgreSQL database; pods of several nodes can't share another. Write such as postgresql://optimus:password@db/optimus." -}}
{{- end -}}
{{- if and .Values.migration.enabled .Values.migration.hook $store.url -}}
{{- fail "migration.hook is true, and the secret comes from store.url: the hook runs before the chart makes it. Use store.existingSecret, or migration.hook: false." -}}
{{- end -}}
{{- $places := list -}}
{{- range $key, $given := dict "create" .Values.checkpoints.create "perJob" .Values.checkpoints.perJob "existingClaim" .Values.checkpoints.existingClaim "url" .Values.checkpoints.url -}}
{{- if $given -}}{{- $places = append $places (printf "checkpoints.%s" $key) -}}{{- end -}}
{{- end -}}
{{- if gt (len $places) 1 -}}
{{- fail (printf "%s are given; checkpoints have one place. Leave one of them." (join " and " $places)) -}}
{{- end -}}
{{- if and .Values.checkpoints.perJob (not .Values.checkpoints.storageClassName) -}}
{{- fail "checkpoints.perJob is true, but no class says of what a job's claim is made. Write checkpoints.storageClassName." -}}
{{- end -}}
{{- end -}}
