"""The sandbox on other machines: a client of servers that speak SandboxFusion's HTTP API."""
