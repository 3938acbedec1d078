"""What is handed to a place so that less can be read in it: redaction, sealing, and the keyring of a seal."""
