"""Load with a ledger: what was sent, acknowledged and read, and the checker that holds it against the log."""
