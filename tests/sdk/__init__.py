"""The official clients as judges: what they accept and insist on is the contract."""
