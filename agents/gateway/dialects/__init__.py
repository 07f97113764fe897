"""The APIs that agents use, one module each: read its requests, and write its answers, streams and errors."""
