"""What is told of connections and responses as they end."""
