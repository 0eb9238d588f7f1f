"""Clusters of real processes: controllers and brokers, each started, killed and halted by its own pid."""
