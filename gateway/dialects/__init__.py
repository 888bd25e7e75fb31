"""One data file for each known backend; each defines DIALECT (see `gateway.upstream.dialect`)."""
