"""The other ends of the wire, under the test's control: an upstream, a client, a gateway."""
