"""`multilane check`: what a backend supports, and what the gateway repairs in what it sends."""
