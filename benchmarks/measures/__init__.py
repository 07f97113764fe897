"""What each part costs, beside a peer or its limit: `make bench`."""
