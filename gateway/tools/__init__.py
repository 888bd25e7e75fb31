"""Commands around the gateway: check a backend, load a gateway, rehearse without a model."""
