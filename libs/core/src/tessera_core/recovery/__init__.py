"""What bound pods hold, by what is written on them or by an estimate."""
