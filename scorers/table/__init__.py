"""Questions about tables: HiTab, MultiHiertt, FinQA."""
