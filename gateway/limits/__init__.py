"""Limits of tenants: what each may do, and how much of it all processes together let it do."""
