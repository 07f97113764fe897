"""The APIs that agents speak: each a module that reads its requests and writes its answers, streams and errors."""
