{{/* Names of the operator's own objects begin with this. */}}
{{- define "taffrail.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "taffrail.operator" -}}
{{ include "taffrail.fullname" . }}-operator
{{- end -}}

{{- define "taffrail.cluster" -}}
{{ default .Release.Name .Values.cluster.name }}
{{- end -}}

{{- define "taffrail.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "taffrail.operator" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name is needed with serviceAccount.create=false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "taffrail.image" -}}
{{- $name := .Values.image.repository -}}
{{- with .Values.image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if .Values.image.digest -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "taffrail.selector" -}}
app.kubernetes.io/name: taffrail-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "taffrail.labels" -}}
{{ include "taffrail.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* "true" if the operator acts on every namespace. */}}
{{- define "taffrail.everywhere" -}}
{{- if has "*" .Values.operator.watchNamespaces -}}true{{- end -}}
{{- end -}}

{{/* The namespaces that are watched, as a JSON list; the release's own if none is named. */}}
{{- define "taffrail.namespaces" -}}
{{- default (list .Release.Namespace) .Values.operator.watchNamespaces | uniq | toJson -}}
{{- end -}}

{{/* What the operator does in a namespace that it watches: `taffrail operator --print-rules`. */}}
{{- define "taffrail.rules" -}}
- apiGroups: [taffrail.dev]
  resources: [clusters, topics, consumergroups]
  verbs: [get, list, watch]
- apiGroups: [taffrail.dev]
  resources: [clusters/status, topics/status, consumergroups/status]
  verbs: [get, patch]
# Lets pods and claims be owned by the Cluster where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [taffrail.dev]
  resources: [clusters/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims, services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
# To park what consumes while its group's offsets are reset, where a ConsumerGroup asks for it.
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale]
  verbs: [get, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What it does in its own namespace besides: leading, and creating what the chart brings along. */}}
{{- define "taffrail.ownRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
- apiGroups: [taffrail.dev]
  resources: [clusters, topics]
  verbs: [create]
{{- end -}}

{{/* For every role binding: whom it binds. */}}
{{- define "taffrail.subjects" -}}
- kind: ServiceAccount
  name: {{ include "taffrail.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
