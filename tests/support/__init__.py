"""What several tests need: small models made to order."""
