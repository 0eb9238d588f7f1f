"""What the tests need of a Kubernetes cluster: its clients, and a short way to write resources."""
