"""A support agent over a shop's orders: it looks them up, and refunds what a person approves."""
