"""Public failures of gateways like ours, each as a test over loopback, and what grew around them.

The upstream is scripted, the client raw, and every event the client sees is judged.
"""
