"""Settings, the command line, logs, keys and children: how the gateway starts and who gets in."""
