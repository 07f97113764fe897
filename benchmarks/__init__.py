"""What it costs: each part beside a peer or the limit of what it stands on. Imports all packages; none imports it."""
