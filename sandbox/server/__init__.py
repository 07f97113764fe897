"""This machine's sandbox as a server that speaks SandboxFusion's HTTP API."""
