"""What the server fills in, keeps and refuses, kind by kind."""
