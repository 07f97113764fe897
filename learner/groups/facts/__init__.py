"""Facts of returned groups for metrics and warnings: answers, episodes, crashes, equal rewards."""
